-- name: @schedule
id, state, next_at, data, created_at

-- name: schedule.insert
INSERT INTO schedule (@schedule) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: schedule.save
UPDATE schedule SET state = ?, next_at = ?, data = ? WHERE id = ?

-- name: schedule.get
SELECT @schedule FROM schedule WHERE id = ?

-- name: schedule.lock
SELECT @schedule FROM schedule WHERE id = ?

-- name: schedule.lock postgres
SELECT @schedule FROM schedule WHERE id = ? FOR UPDATE

-- name: schedule.list
SELECT n, @schedule FROM schedule WHERE state <> 'removed' AND n < ? ORDER BY n DESC LIMIT ?

-- name: schedule.due
SELECT @schedule FROM schedule WHERE state = 'active' AND next_at > 0 AND next_at <= ? ORDER BY next_at, n LIMIT ?

-- name: schedule.next
SELECT min(next_at) FROM schedule WHERE state = 'active' AND next_at > 0

-- name: @occurrence
id, schedule_id, due_at, state, reason, outcome, run_id, manual, rehearsal, covers, at, ended_at

-- name: occurrence.insert
INSERT INTO occurrence (@occurrence) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: occurrence.save
UPDATE occurrence SET state = ?, reason = ?, outcome = ?, run_id = ?, ended_at = ? WHERE id = ?

-- name: occurrence.at
SELECT @occurrence FROM occurrence WHERE schedule_id = ? AND due_at = ?

-- name: occurrence.forget
DELETE FROM occurrence WHERE schedule_id = ? AND due_at > ? AND state = 'missed'

-- name: occurrence.run
SELECT @occurrence FROM occurrence WHERE run_id <> '' AND run_id = ?

-- name: occurrence.list
SELECT n, @occurrence FROM occurrence WHERE n < ? ORDER BY n DESC LIMIT ?

-- name: occurrence.of
SELECT n, @occurrence FROM occurrence WHERE schedule_id = ? AND n < ? ORDER BY n DESC LIMIT ?

-- name: occurrence.prune
DELETE FROM occurrence WHERE schedule_id = ? AND n <= (
    SELECT older.n FROM occurrence AS older WHERE older.schedule_id = ? ORDER BY older.n DESC LIMIT 1 OFFSET ?)
