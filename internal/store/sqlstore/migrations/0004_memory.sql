-- What is known, and what makes entries findable where the database does that
-- itself. rev rises with every change; an index beside the database keeps up
-- by it. words are the forms a row is found by, empty where an index beside
-- the database holds them.

CREATE TABLE memory (
    n          SERIAL_KEY,
    id         TEXT   NOT NULL UNIQUE,
    scope      TEXT   NOT NULL,
    kind       TEXT   NOT NULL,
    summary    TEXT   NOT NULL,
    detail     TEXT   NOT NULL,
    tier       TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    confidence DOUBLE PRECISION NOT NULL,
    importance DOUBLE PRECISION NOT NULL,
    durability DOUBLE PRECISION NOT NULL,
    evidence   BIGINT NOT NULL,
    learned    TEXT   NOT NULL,
    sources    TEXT   NOT NULL,
    taint      TEXT   NOT NULL,
    rival      TEXT   NOT NULL,
    actor      TEXT   NOT NULL,
    run_id     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    rev        BIGINT NOT NULL,
    words      TEXT   NOT NULL
);
CREATE INDEX memory_scope ON memory (scope, state, kind, n);
CREATE INDEX memory_seen ON memory (scope, seen_at) WHERE state = 'live' AND tier <> 'subconscious';
CREATE INDEX memory_rev ON memory (rev);

CREATE TABLE entry_words (
    n               SERIAL_KEY,
    conversation_id TEXT   NOT NULL,
    seq             BIGINT NOT NULL,
    words           TEXT   NOT NULL
);
CREATE INDEX entry_words_place ON entry_words (conversation_id, seq);

CREATE TABLE entry_mark (
    conversation_id TEXT   NOT NULL PRIMARY KEY,
    seq             BIGINT NOT NULL
) COMPACT;

CREATE INDEX ledger_conversation ON ledger (conversation_id, purpose);
-- postgres: CREATE INDEX memory_words ON memory USING gin (array_to_tsvector(string_to_array(words, ' '))) WHERE state = 'live';
-- postgres: CREATE INDEX entry_words_words ON entry_words USING gin (array_to_tsvector(string_to_array(words, ' ')));
