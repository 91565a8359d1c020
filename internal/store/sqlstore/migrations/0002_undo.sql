-- What runs did to files and can be taken back, which files hold text from
-- outside, and commands that run in the background.

CREATE TABLE undo (
    n               SERIAL_KEY,
    id              TEXT   NOT NULL UNIQUE,
    run_id          TEXT   NOT NULL,
    conversation_id TEXT   NOT NULL,
    call_id         TEXT   NOT NULL,
    tool            TEXT   NOT NULL,
    act             TEXT   NOT NULL,
    path            TEXT   NOT NULL,
    place           TEXT   NOT NULL,
    before_state    TEXT   NOT NULL,
    before_ref      TEXT   NOT NULL,
    before_mode     BIGINT NOT NULL,
    after_state     TEXT   NOT NULL,
    taint           TEXT   NOT NULL,
    note            TEXT   NOT NULL,
    at              BIGINT NOT NULL,
    undone_at       BIGINT NOT NULL
);
CREATE INDEX undo_run ON undo (run_id, n);
CREATE INDEX undo_left ON undo (n, conversation_id) WHERE undone_at = 0;

CREATE TABLE file_taint (
    path    TEXT   NOT NULL PRIMARY KEY,
    sources TEXT   NOT NULL,
    run_id  TEXT   NOT NULL,
    at      BIGINT NOT NULL
) COMPACT;

CREATE TABLE job (
    n               SERIAL_KEY,
    id              TEXT   NOT NULL UNIQUE,
    conversation_id TEXT   NOT NULL,
    run_id          TEXT   NOT NULL,
    node            TEXT   NOT NULL,
    command         TEXT   NOT NULL,
    dir             TEXT   NOT NULL,
    output          TEXT   NOT NULL,
    state           TEXT   NOT NULL,
    reason          TEXT   NOT NULL,
    exit_code       BIGINT NOT NULL,
    detached        BIGINT NOT NULL,
    started_at      BIGINT NOT NULL,
    ended_at        BIGINT NOT NULL
);
CREATE INDEX job_conversation ON job (conversation_id, n);
CREATE INDEX job_running ON job (node, n) WHERE state = 'running';
