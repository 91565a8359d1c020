-- name: @delivery
id, channel, address, conversation_id, run_id, request_id, digest, kind, entry_seq, question_id, text, files,
state, reason, superseded_by, receipt, not_before, attempts, parts, sender, created_at, settled_at

-- name: delivery.insert
INSERT INTO delivery (@delivery) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: delivery.find
SELECT @delivery FROM delivery WHERE address = ? AND request_id = ?

-- name: delivery.get
SELECT @delivery FROM delivery WHERE id = ?

-- name: delivery.lock
SELECT @delivery FROM delivery WHERE id = ?

-- name: delivery.lock postgres
SELECT @delivery FROM delivery WHERE id = ? FOR UPDATE

-- name: delivery.save
UPDATE delivery SET channel = ?, address = ?, conversation_id = ?, run_id = ?, request_id = ?, digest = ?,
    kind = ?, entry_seq = ?, question_id = ?, text = ?, files = ?, state = ?, reason = ?, superseded_by = ?,
    receipt = ?, not_before = ?, attempts = ?, parts = ?, sender = ?, created_at = ?, settled_at = ?
WHERE id = ?

-- name: delivery.list
SELECT n, @delivery FROM delivery WHERE n < ?

-- name: delivery.list.address
AND address = ?

-- name: delivery.list.conversation
AND conversation_id <> '' AND conversation_id = ?

-- name: delivery.list.run
AND run_id <> '' AND run_id = ?

-- name: delivery.list.states
AND state IN (?)

-- name: delivery.list.indexed
AND state IN ('pending', 'held', 'sending', 'unknown')

-- name: delivery.list.end
ORDER BY n DESC LIMIT ?

-- name: delivery.next
SELECT @delivery FROM delivery
WHERE state IN ('pending', 'held', 'sending', 'unknown') AND state = 'pending' AND channel IN (?)
    AND not_before <= ?
    AND NOT EXISTS (
        SELECT 1 FROM delivery AS older
        WHERE older.state IN ('pending', 'held', 'sending', 'unknown') AND older.state IN ('pending', 'sending')
            AND older.address = delivery.address AND older.n < delivery.n)
ORDER BY n LIMIT 1

-- name: delivery.next postgres
SELECT @delivery FROM delivery
WHERE state IN ('pending', 'held', 'sending', 'unknown') AND state = 'pending' AND channel IN (?)
    AND not_before <= ?
    AND NOT EXISTS (
        SELECT 1 FROM delivery AS older
        WHERE older.state IN ('pending', 'held', 'sending', 'unknown') AND older.state IN ('pending', 'sending')
            AND older.address = delivery.address AND older.n < delivery.n)
ORDER BY n LIMIT 1 FOR UPDATE OF delivery SKIP LOCKED

-- name: delivery.unsettled
SELECT @delivery FROM delivery
WHERE state IN ('pending', 'held', 'sending', 'unknown') AND state IN ('pending', 'held')
    AND kind = 'answer' AND conversation_id = ?
ORDER BY n

-- name: delivery.recent
SELECT @delivery FROM delivery WHERE conversation_id <> '' AND conversation_id = ? AND kind = 'answer'
ORDER BY n DESC LIMIT ?

-- name: delivery.sending
SELECT @delivery FROM delivery
WHERE state IN ('pending', 'held', 'sending', 'unknown') AND sender <> '' AND sender = ?
ORDER BY n

-- name: delivery.sending.dead
SELECT @delivery FROM delivery
WHERE state IN ('pending', 'held', 'sending', 'unknown') AND sender <> ''
    AND NOT EXISTS (SELECT 1 FROM process AS p WHERE p.id = delivery.sender AND p.lease_until > ?)
ORDER BY n

-- name: delivery.due
SELECT min(not_before) FROM delivery
WHERE state IN ('pending', 'held', 'sending', 'unknown') AND state = 'pending' AND channel IN (?)
    AND not_before > ?

-- name: delivery.count
SELECT state, count(*) FROM delivery WHERE state IN ('pending', 'held', 'sending', 'unknown') GROUP BY state
