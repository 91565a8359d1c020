-- name: @input
id, channel, message_id, conversation_id, actor, mode, text, files, digest, state, reason, run_id,
sent_at, accepted_at, settled_at

-- name: input.insert
INSERT INTO input (@input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: input.find
SELECT @input FROM input WHERE channel = ? AND message_id = ?

-- name: input.get
SELECT @input FROM input WHERE id = ?

-- name: input.queued
SELECT @input FROM input WHERE state = 'queued' AND conversation_id = ? ORDER BY n

-- name: input.run
SELECT @input FROM input WHERE run_id <> '' AND run_id = ? ORDER BY n

-- name: input.save
UPDATE input SET state = ?, reason = ?, run_id = ?, settled_at = ?, mode = ? WHERE id = ?

-- name: input.count
SELECT count(*) FROM input WHERE state = 'queued' AND conversation_id = ?

-- name: input.later
SELECT 1 FROM input WHERE mode <> 'write' AND conversation_id = ? AND accepted_at > ? LIMIT 1
