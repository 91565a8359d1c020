-- The first schema. SERIAL_KEY, BYTES and COMPACT stand for what the dialects
-- spell differently: an insertion counter, a byte string, and a table that is
-- stored inside its primary key.
--
-- Times are UTC microseconds, 0 where there is none. JSON is text, empty where
-- there is none. Indexes over states are partial, so what has ended costs
-- nothing but its row.

CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) COMPACT;

CREATE TABLE conversation (
    id         TEXT   NOT NULL PRIMARY KEY,
    kind       TEXT   NOT NULL,
    title      TEXT   NOT NULL,
    profile    TEXT   NOT NULL,
    parent_id  TEXT   NOT NULL,
    fork_seq   BIGINT NOT NULL,
    head       BIGINT NOT NULL,
    last_seq   BIGINT NOT NULL,
    mode       TEXT   NOT NULL,
    mode_until BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
) COMPACT;

CREATE TABLE entry (
    conversation_id TEXT   NOT NULL,
    seq             BIGINT NOT NULL,
    id              TEXT   NOT NULL UNIQUE,
    kind            TEXT   NOT NULL,
    run_id          TEXT   NOT NULL,
    round           BIGINT NOT NULL,
    call_id         TEXT   NOT NULL,
    actor           TEXT   NOT NULL,
    text            TEXT   NOT NULL,
    data            TEXT   NOT NULL,
    hidden          BIGINT NOT NULL,
    taint           TEXT   NOT NULL,
    at              BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, seq)
) COMPACT;

CREATE TABLE input (
    n               SERIAL_KEY,
    id              TEXT   NOT NULL UNIQUE,
    channel         TEXT   NOT NULL,
    message_id      TEXT   NOT NULL,
    conversation_id TEXT   NOT NULL,
    actor           TEXT   NOT NULL,
    mode            TEXT   NOT NULL,
    text            TEXT   NOT NULL,
    files           TEXT   NOT NULL,
    digest          TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    reason          TEXT   NOT NULL,
    run_id          TEXT   NOT NULL,
    sent_at         BIGINT NOT NULL,
    accepted_at     BIGINT NOT NULL,
    settled_at      BIGINT NOT NULL,
    UNIQUE (channel, message_id)
);
CREATE INDEX input_queued ON input (conversation_id, n) WHERE state = 'queued';
CREATE INDEX input_run ON input (run_id) WHERE run_id <> '';
CREATE INDEX input_accepted ON input (conversation_id, accepted_at) WHERE mode <> 'write';

CREATE TABLE run (
    n               SERIAL_KEY,
    id              TEXT   NOT NULL UNIQUE,
    kind            TEXT   NOT NULL,
    lane            TEXT   NOT NULL,
    key             TEXT   NOT NULL,
    conversation_id TEXT   NOT NULL,
    parent_id       TEXT   NOT NULL,
    replay_of       TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    priority        BIGINT NOT NULL,
    not_before      BIGINT NOT NULL,
    deadline        BIGINT NOT NULL,
    owner           TEXT   NOT NULL,
    epoch           BIGINT NOT NULL,
    attempts        BIGINT NOT NULL,
    takeovers       BIGINT NOT NULL,
    cancel          TEXT   NOT NULL,
    detached        BIGINT NOT NULL,
    woken           BIGINT NOT NULL,
    node            TEXT   NOT NULL,
    trusted         BIGINT NOT NULL,
    actor           TEXT   NOT NULL,
    mandate         TEXT   NOT NULL,
    input           TEXT   NOT NULL,
    wait            TEXT   NOT NULL,
    wait_until      BIGINT NOT NULL,
    result          TEXT   NOT NULL,
    error_code      TEXT   NOT NULL,
    error           TEXT   NOT NULL,
    usage           TEXT   NOT NULL,
    running         BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    ended_at        BIGINT NOT NULL
);
-- One live run per conversation, and one in hand per key, whatever the program
-- above believes.
CREATE UNIQUE INDEX run_live ON run (conversation_id)
    WHERE state IN ('queued', 'running', 'waiting') AND conversation_id <> '';
CREATE UNIQUE INDEX run_busy ON run (key)
    WHERE state IN ('running', 'waiting') AND key <> '';
-- A claim reads only this index until it has found its run.
CREATE INDEX run_ready ON run (lane, woken DESC, priority DESC, created_at, n, not_before, key, node, trusted)
    WHERE state = 'queued';
CREATE INDEX run_state ON run (state, lane, n)
    WHERE state IN ('queued', 'running', 'waiting', 'dead');
CREATE INDEX run_conversation ON run (conversation_id, n) WHERE conversation_id <> '';
CREATE INDEX run_parent ON run (parent_id, n) WHERE parent_id <> '';
CREATE INDEX run_key ON run (key, n) WHERE key <> '';

CREATE TABLE step (
    run_id     TEXT   NOT NULL,
    round      BIGINT NOT NULL,
    call_id    TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    effect     TEXT   NOT NULL,
    args_hash  TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    output     TEXT   NOT NULL,
    output_ref TEXT   NOT NULL,
    error      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    PRIMARY KEY (run_id, round, call_id)
) COMPACT;

CREATE TABLE question (
    n               SERIAL_KEY,
    id              TEXT   NOT NULL UNIQUE,
    run_id          TEXT   NOT NULL,
    conversation_id TEXT   NOT NULL,
    call_id         TEXT   NOT NULL,
    kind            TEXT   NOT NULL,
    title           TEXT   NOT NULL,
    body            TEXT   NOT NULL,
    choices         TEXT   NOT NULL,
    accesses        TEXT   NOT NULL,
    hash            TEXT   NOT NULL,
    rule            TEXT   NOT NULL,
    always          TEXT   NOT NULL,
    asked_by        TEXT   NOT NULL,
    answerers       TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    answer          TEXT   NOT NULL,
    answered_by     TEXT   NOT NULL,
    answered_via    TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    answered_at     BIGINT NOT NULL
);
CREATE INDEX question_open ON question (expires_at, n) WHERE state = 'open';
CREATE INDEX question_run ON question (run_id, n);

CREATE TABLE delivery (
    n               SERIAL_KEY,
    id              TEXT   NOT NULL UNIQUE,
    channel         TEXT   NOT NULL,
    address         TEXT   NOT NULL,
    conversation_id TEXT   NOT NULL,
    run_id          TEXT   NOT NULL,
    request_id      TEXT   NOT NULL,
    digest          TEXT   NOT NULL,
    kind            TEXT   NOT NULL,
    entry_seq       BIGINT NOT NULL,
    question_id     TEXT   NOT NULL,
    text            TEXT   NOT NULL,
    files           TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    reason          TEXT   NOT NULL,
    superseded_by   TEXT   NOT NULL,
    receipt         TEXT   NOT NULL,
    not_before      BIGINT NOT NULL,
    attempts        BIGINT NOT NULL,
    parts           TEXT   NOT NULL,
    sender          TEXT   NOT NULL,
    created_at      BIGINT NOT NULL,
    settled_at      BIGINT NOT NULL,
    UNIQUE (address, request_id)
);
CREATE INDEX delivery_open ON delivery (state, n)
    WHERE state IN ('pending', 'held', 'sending', 'unknown');
CREATE INDEX delivery_conversation ON delivery (conversation_id, n) WHERE conversation_id <> '';
CREATE INDEX delivery_run ON delivery (run_id, n) WHERE run_id <> '';

CREATE TABLE hold (
    key       TEXT   NOT NULL PRIMARY KEY,
    ends_at   BIGINT NOT NULL,
    reason    TEXT   NOT NULL,
    held_by   TEXT   NOT NULL
) COMPACT;

CREATE TABLE process (
    id          TEXT   NOT NULL PRIMARY KEY,
    node        TEXT   NOT NULL,
    name        TEXT   NOT NULL,
    version     TEXT   NOT NULL,
    digest      TEXT   NOT NULL,
    started_at  BIGINT NOT NULL,
    lease_until BIGINT NOT NULL
) COMPACT;

CREATE TABLE lease (
    name    TEXT   NOT NULL PRIMARY KEY,
    owner   TEXT   NOT NULL,
    epoch   BIGINT NOT NULL,
    ends_at BIGINT NOT NULL
) COMPACT;

CREATE TABLE channel (
    name  TEXT   NOT NULL PRIMARY KEY,
    place TEXT   NOT NULL,
    epoch BIGINT NOT NULL,
    data  TEXT   NOT NULL
) COMPACT;

CREATE TABLE ledger (
    id              TEXT   NOT NULL PRIMARY KEY,
    run_id          TEXT   NOT NULL,
    conversation_id TEXT   NOT NULL,
    profile         TEXT   NOT NULL,
    purpose         TEXT   NOT NULL,
    provider        TEXT   NOT NULL,
    model           TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    input_tokens    BIGINT NOT NULL,
    output_tokens   BIGINT NOT NULL,
    cached          BIGINT NOT NULL,
    cache_write     BIGINT NOT NULL,
    reasoning       BIGINT NOT NULL,
    estimated       BIGINT NOT NULL,
    at              BIGINT NOT NULL
) COMPACT;
CREATE INDEX ledger_at ON ledger (at);

CREATE TABLE permit (
    id         TEXT   NOT NULL PRIMARY KEY,
    actor      TEXT   NOT NULL,
    rule       TEXT   NOT NULL,
    run_id     TEXT   NOT NULL,
    once       BIGINT NOT NULL,
    given_by   TEXT   NOT NULL,
    via        TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
) COMPACT;
CREATE INDEX permit_live ON permit (id) WHERE revoked_at = 0;

CREATE TABLE audit (
    n       SERIAL_KEY,
    id      TEXT   NOT NULL,
    at      BIGINT NOT NULL,
    actor   TEXT   NOT NULL,
    act     TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    verdict TEXT   NOT NULL,
    rule    TEXT   NOT NULL,
    detail  TEXT   NOT NULL
);

CREATE TABLE blob (
    ref     TEXT   NOT NULL PRIMARY KEY,
    at      BIGINT NOT NULL,
    content BYTES  NOT NULL
) COMPACT;
