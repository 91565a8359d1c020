-- Work that starts itself, and what became of each of its occurrences.

CREATE TABLE schedule (
    n          SERIAL_KEY,
    id         TEXT   NOT NULL UNIQUE,
    state      TEXT   NOT NULL,
    next_at    BIGINT NOT NULL,
    data       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX schedule_due ON schedule (next_at) WHERE state = 'active' AND next_at > 0;
CREATE INDEX schedule_kept ON schedule (n) WHERE state <> 'removed';

CREATE TABLE occurrence (
    n           SERIAL_KEY,
    id          TEXT   NOT NULL UNIQUE,
    schedule_id TEXT   NOT NULL,
    due_at      BIGINT NOT NULL,
    state       TEXT   NOT NULL,
    reason      TEXT   NOT NULL,
    outcome     TEXT   NOT NULL,
    run_id      TEXT   NOT NULL,
    manual      BIGINT NOT NULL,
    rehearsal   BIGINT NOT NULL,
    covers      BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL,
    UNIQUE (schedule_id, due_at)
);
CREATE INDEX occurrence_schedule ON occurrence (schedule_id, n);
CREATE INDEX occurrence_run ON occurrence (run_id) WHERE run_id <> '';
