-- name: @memory
id, scope, kind, summary, detail, tier, state, confidence, importance, durability, evidence, learned, sources, taint,
rival, actor, run_id, created_at, seen_at, changed_at

-- name: @rev
(SELECT coalesce(max(rev), 0) + 1 FROM memory)

-- name: memory.insert
INSERT INTO memory (@memory, words, rev) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, @rev)
ON CONFLICT DO NOTHING

-- name: memory.save
UPDATE memory SET scope = ?, kind = ?, summary = ?, detail = ?, tier = ?, state = ?, confidence = ?, importance = ?,
    durability = ?, evidence = ?, learned = ?, sources = ?, taint = ?, rival = ?, actor = ?, run_id = ?, created_at = ?,
    seen_at = ?, changed_at = ?, words = ?, rev = @rev
WHERE id = ?

-- name: memory.get
SELECT @memory FROM memory WHERE id = ?

-- name: memory.list
SELECT n, @memory FROM memory WHERE n < ?

-- name: memory.list.end
ORDER BY n DESC LIMIT ?

-- name: memory.best
SELECT @memory FROM memory
WHERE scope = ? AND state = 'live' AND kind IN (?) AND tier <> 'subconscious' AND seen_at >= ?
ORDER BY 0.35 * importance + 0.25 * durability + 0.25 * confidence + 0.03 * CASE WHEN evidence > 5 THEN 5 ELSE evidence END DESC,
    n
LIMIT ?

-- name: memory.stale
SELECT @memory FROM memory
WHERE scope = ? AND state = 'live' AND tier <> 'subconscious' AND seen_at < ? ORDER BY seen_at, n LIMIT ?

-- name: memory.count
SELECT kind, tier, state, count(*) FROM memory WHERE scope = ? GROUP BY kind, tier, state ORDER BY kind, tier, state

-- name: memory.scopes
SELECT DISTINCT scope FROM memory ORDER BY scope

-- name: memory.clear.undo
DELETE FROM undo WHERE act = 'memory' AND path IN (SELECT id FROM memory WHERE scope = ?)

-- name: memory.clear
DELETE FROM memory WHERE scope = ?

-- name: memory.numbers
SELECT n, @memory FROM memory WHERE state = 'live' AND n IN (?)

-- name: memory.since
SELECT n, rev, scope, tier, state, summary, detail FROM memory WHERE rev > ? ORDER BY rev LIMIT ?

-- name: memory.lastrev
SELECT coalesce(max(rev), 0) FROM memory

-- name: memory.words
SELECT 1

-- name: memory.words postgres
SELECT n FROM memory
WHERE state = 'live' AND array_to_tsvector(string_to_array(words, ' ')) @@ ?::tsquery AND scope = ?
    AND (tier = 'subconscious') = (? = 1)
ORDER BY n DESC LIMIT ?

-- name: entry.words
SELECT 1

-- name: entry.words postgres
SELECT n, conversation_id, seq FROM entry_words
WHERE array_to_tsvector(string_to_array(words, ' ')) @@ ?::tsquery AND (? = '' OR conversation_id = ?) AND n < ?
ORDER BY n DESC LIMIT ?

-- name: entry.behind
SELECT c.id, coalesce(m.seq, CASE c.parent_id WHEN '' THEN 0 ELSE c.fork_seq END)
FROM conversation AS c LEFT JOIN entry_mark AS m ON m.conversation_id = c.id
WHERE c.last_seq > coalesce(m.seq, CASE c.parent_id WHEN '' THEN 0 ELSE c.fork_seq END) LIMIT 1

-- name: entry.lasts
SELECT id, CASE parent_id WHEN '' THEN 0 ELSE fork_seq END, last_seq FROM conversation ORDER BY id

-- name: entry.mark
INSERT INTO entry_mark (conversation_id, seq) VALUES (?, ?)
ON CONFLICT (conversation_id) DO UPDATE SET seq = excluded.seq

-- name: entry.index
INSERT INTO entry_words (conversation_id, seq, words) VALUES (?, ?, ?)

-- name: ledger.talk
SELECT purpose, @sums FROM ledger WHERE conversation_id = ? GROUP BY purpose
