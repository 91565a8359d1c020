-- name: @conversation
id, kind, title, profile, parent_id, fork_seq, head, last_seq, mode, mode_until, created_at, updated_at

-- name: conversation.get
SELECT @conversation FROM conversation WHERE id = ?

-- name: conversation.lock
SELECT @conversation FROM conversation WHERE id = ?

-- name: conversation.lock postgres
SELECT @conversation FROM conversation WHERE id = ? FOR UPDATE

-- name: conversation.insert
INSERT INTO conversation (@conversation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: conversation.save
UPDATE conversation SET kind = ?, title = ?, profile = ?, parent_id = ?, fork_seq = ?, head = ?,
    mode = ?, mode_until = ?, updated_at = ?
WHERE id = ?

-- name: conversation.appended
UPDATE conversation SET last_seq = ?, updated_at = ? WHERE id = ?

-- name: conversation.list
SELECT @conversation FROM conversation
WHERE updated_at < ? OR (updated_at = ? AND id > ?)
ORDER BY updated_at DESC, id
LIMIT ?

-- name: conversation.list postgres
SELECT @conversation FROM conversation
WHERE updated_at < ? OR (updated_at = ? AND id > ? COLLATE "C")
ORDER BY updated_at DESC, id COLLATE "C"
LIMIT ?

-- name: @entry
id, conversation_id, seq, kind, run_id, round, call_id, actor, text, data, hidden, taint, at

-- name: entry.insert
INSERT INTO entry (@entry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: entry.get
SELECT @entry FROM entry WHERE id = ?

-- name: entry.after
SELECT @entry FROM entry WHERE conversation_id = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?

-- name: entry.before
SELECT @entry FROM entry WHERE conversation_id = ? AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT ?
