-- name: @run
id, kind, lane, key, conversation_id, parent_id, replay_of, state, priority, not_before, deadline, owner,
epoch, attempts, takeovers, cancel, detached, woken, node, trusted, actor, mandate, input, wait, wait_until,
result, error_code, error, usage, running, created_at, started_at, ended_at

-- name: run.insert
INSERT INTO run (@run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: run.get
SELECT @run FROM run WHERE id = ?

-- name: run.lock
SELECT @run FROM run WHERE id = ?

-- name: run.lock postgres
SELECT @run FROM run WHERE id = ? FOR UPDATE

-- name: run.live
SELECT @run FROM run
WHERE state IN ('queued', 'running', 'waiting') AND conversation_id <> '' AND conversation_id = ?

-- name: run.live postgres
SELECT @run FROM run
WHERE state IN ('queued', 'running', 'waiting') AND conversation_id <> '' AND conversation_id = ?
FOR UPDATE

-- name: run.save
UPDATE run SET kind = ?, lane = ?, key = ?, conversation_id = ?, parent_id = ?, replay_of = ?, state = ?,
    priority = ?, not_before = ?, deadline = ?, owner = ?, epoch = ?, attempts = ?, takeovers = ?, cancel = ?,
    detached = ?, woken = ?, node = ?, trusted = ?, actor = ?, mandate = ?, input = ?, wait = ?, wait_until = ?,
    result = ?, error_code = ?, error = ?, usage = ?, running = ?, created_at = ?, started_at = ?, ended_at = ?
WHERE id = ?

-- A list is put together from these pieces. The conditions on state repeat the
-- partial index's own, which lets the planner use it.

-- name: run.list
SELECT n, @run FROM run WHERE n < ?

-- name: run.list.conversation
AND conversation_id <> '' AND conversation_id = ?

-- name: run.list.parent
AND parent_id <> '' AND parent_id = ?

-- name: run.list.key
AND key <> '' AND key = ?

-- name: run.list.kind
AND kind = ?

-- name: run.list.lane
AND lane = ?

-- name: run.list.states
AND state IN (?)

-- name: run.list.indexed
AND state IN ('queued', 'running', 'waiting', 'dead')

-- name: run.list.end
ORDER BY n DESC LIMIT ?

-- name: run.children
SELECT @run FROM run WHERE parent_id <> '' AND parent_id = ? ORDER BY n

-- The best candidate of a lane. SQLite has no statistics that would tell it how
-- few runs are in hand among all that ever were, so it is told which index.

-- name: run.ready sqlite
SELECT id, key FROM run
WHERE state = 'queued' AND lane = ? AND not_before <= ? AND (node = '' OR node = ?) AND trusted >= ?
    AND NOT (key <> '' AND key IN (
        SELECT b.key FROM run AS b INDEXED BY run_busy
        WHERE b.state IN ('running', 'waiting') AND b.key <> ''
        UNION ALL SELECT h.key FROM hold AS h WHERE h.ends_at = 0 OR h.ends_at > ?))

-- name: run.ready postgres
SELECT id, key FROM run
WHERE state = 'queued' AND lane = ? AND not_before <= ? AND (node = '' OR node = ?) AND trusted >= ?
    AND NOT (key <> '' AND key IN (
        SELECT b.key FROM run AS b WHERE b.state IN ('running', 'waiting') AND b.key <> ''
        UNION ALL SELECT h.key FROM hold AS h WHERE h.ends_at = 0 OR h.ends_at > ?))

-- name: run.ready.only
AND id IN (
    WITH RECURSIVE family (id) AS (
        SELECT f.id FROM run AS f WHERE f.conversation_id <> '' AND f.conversation_id = ?
        UNION
        SELECT c.id FROM run AS c JOIN family ON c.parent_id = family.id WHERE c.parent_id <> '')
    SELECT id FROM family)

-- name: run.ready.kinds
AND kind IN (?)

-- name: run.ready.end
ORDER BY woken DESC, priority DESC, created_at, n LIMIT 1

-- name: run.ready.end postgres
ORDER BY woken DESC, priority DESC, created_at, n LIMIT 1 FOR UPDATE OF run SKIP LOCKED

-- name: run.ready.except
AND key NOT IN (?)

-- name: run.keylock postgres
SELECT pg_try_advisory_xact_lock(hashtextextended(?, 0))

-- name: run.keybusy
SELECT 1 FROM run WHERE state IN ('running', 'waiting') AND key <> '' AND key = ?
UNION ALL
SELECT 1 FROM hold WHERE key = ? AND (ends_at = 0 OR ends_at > ?)
LIMIT 1

-- name: run.claim
UPDATE run SET state = 'running', owner = ?, epoch = epoch + 1,
    started_at = CASE started_at WHEN 0 THEN ? ELSE started_at END
WHERE id = ? AND state = 'queued'
RETURNING @run

-- name: run.depths
SELECT lane, state, count(*) FROM run
WHERE state IN ('queued', 'running', 'waiting', 'dead') AND state <> 'dead'
GROUP BY lane, state

-- name: run.queuedkey sqlite
SELECT count(*) FROM run INDEXED BY run_ready WHERE state = 'queued' AND key <> '' AND key = ?

-- name: run.queuedkey postgres
SELECT count(*) FROM run WHERE state = 'queued' AND key <> '' AND key = ?

-- name: run.orphans
SELECT @run FROM run
WHERE state IN ('queued', 'running', 'waiting', 'dead') AND state = 'running'
    AND NOT EXISTS (SELECT 1 FROM process AS p WHERE p.id = run.owner AND p.lease_until > ?)
ORDER BY n LIMIT ?

-- name: run.due
SELECT min(at) FROM (
    SELECT min(not_before) AS at FROM run WHERE state = 'queued' AND not_before > ?
    UNION ALL
    SELECT min(wait_until) AS at FROM run
    WHERE state IN ('queued', 'running', 'waiting', 'dead') AND state = 'waiting' AND wait_until > ?
) AS times

-- name: run.overdue
SELECT @run FROM run
WHERE state IN ('queued', 'running', 'waiting', 'dead') AND state = 'waiting'
    AND wait_until > 0 AND wait_until <= ?
ORDER BY wait_until, n LIMIT ?

-- name: run.prune.last
SELECT n FROM run WHERE key <> '' AND key = ? AND state IN ('done', 'failed', 'stopped', 'dead')
ORDER BY n DESC LIMIT 1 OFFSET ?

-- name: run.prune.steps
DELETE FROM step WHERE run_id IN (
    SELECT id FROM run WHERE key <> '' AND key = ? AND state IN ('done', 'failed', 'stopped', 'dead') AND n <= ?)

-- name: run.prune.rows
DELETE FROM run WHERE key <> '' AND key = ? AND state IN ('done', 'failed', 'stopped', 'dead') AND n <= ?

-- name: @step
run_id, round, call_id, kind, name, effect, args_hash, state, output, output_ref, error, epoch, started_at, ended_at

-- name: step.put
INSERT INTO step (@step) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, round, call_id) DO UPDATE SET kind = excluded.kind, name = excluded.name,
    effect = excluded.effect, args_hash = excluded.args_hash, state = excluded.state, output = excluded.output,
    output_ref = excluded.output_ref, error = excluded.error, epoch = excluded.epoch,
    started_at = excluded.started_at, ended_at = excluded.ended_at

-- name: step.get
SELECT @step FROM step WHERE run_id = ? AND round = ? AND call_id = ?

-- name: step.list
SELECT @step FROM step WHERE run_id = ? ORDER BY round, started_at, call_id

-- name: step.started
SELECT @step FROM step WHERE run_id = ? AND state = 'started' AND epoch < ? ORDER BY round, started_at, call_id
