-- name: @undo
id, run_id, conversation_id, call_id, tool, act, path, place, before_state, before_ref, before_mode, after_state,
taint, note, at, undone_at

-- name: undo.put
INSERT INTO undo (@undo) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: undo.run
SELECT @undo FROM undo WHERE run_id = ? ORDER BY n

-- name: undo.last
SELECT run_id FROM undo WHERE undone_at = 0 AND conversation_id <> '' AND (? = '' OR conversation_id = ?) ORDER BY n DESC LIMIT 1

-- name: undo.done
UPDATE undo SET undone_at = ? WHERE id = ? AND undone_at = 0

-- name: undo.exists
SELECT 1 FROM undo WHERE id = ?

-- name: undo.wants
SELECT 1 FROM undo WHERE before_ref = ? LIMIT 1

-- name: taint.put
INSERT INTO file_taint (path, sources, run_id, at) VALUES (?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET sources = excluded.sources, run_id = excluded.run_id, at = excluded.at

-- name: taint.delete
DELETE FROM file_taint WHERE path = ?

-- name: taint.about
SELECT sources FROM file_taint WHERE path IN (?) OR substr(path, 1, ?) = ? ORDER BY path

-- name: @job
id, conversation_id, run_id, node, command, dir, output, state, reason, exit_code, detached, started_at, ended_at

-- name: job.insert
INSERT INTO job (@job) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: job.save
UPDATE job SET state = ?, reason = ?, exit_code = ?, detached = ?, ended_at = ? WHERE id = ?

-- name: job.get
SELECT @job FROM job WHERE id = ?

-- name: job.list
SELECT @job FROM job WHERE (? = '' OR conversation_id = ?) ORDER BY n DESC LIMIT 100

-- name: job.running
SELECT @job FROM job WHERE state = 'running' AND node = ? ORDER BY n
