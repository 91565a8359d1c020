-- name: @question
id, run_id, conversation_id, call_id, kind, title, body, choices, accesses, hash, rule, always, asked_by,
answerers, state, answer, answered_by, answered_via, created_at, expires_at, answered_at

-- name: question.insert
INSERT INTO question (@question) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: question.get
SELECT @question FROM question WHERE id = ?

-- name: question.lock
SELECT @question FROM question WHERE id = ?

-- name: question.lock postgres
SELECT @question FROM question WHERE id = ? FOR UPDATE

-- name: question.save
UPDATE question SET run_id = ?, conversation_id = ?, call_id = ?, kind = ?, title = ?, body = ?, choices = ?,
    accesses = ?, hash = ?, rule = ?, always = ?, asked_by = ?, answerers = ?, state = ?, answer = ?,
    answered_by = ?, answered_via = ?, created_at = ?, expires_at = ?, answered_at = ?
WHERE id = ?

-- The conditions on expires_at hold for all and lead the planner to the open
-- questions' own index.

-- name: question.open
SELECT @question FROM question WHERE state = 'open' AND expires_at >= 0 ORDER BY created_at, n

-- name: question.open.conversation
SELECT @question FROM question WHERE state = 'open' AND expires_at >= 0 AND conversation_id = ? ORDER BY created_at, n

-- name: question.run
SELECT @question FROM question WHERE run_id = ? ORDER BY n

-- name: question.list
SELECT n, @question FROM question WHERE n < ? ORDER BY n DESC LIMIT ?

-- name: question.expired
SELECT @question FROM question WHERE state = 'open' AND expires_at > 0 AND expires_at <= ?
ORDER BY expires_at, n LIMIT ?

-- name: question.expiry
SELECT min(expires_at) FROM question WHERE state = 'open' AND expires_at > 0
