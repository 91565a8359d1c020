-- name: ledger.put
INSERT INTO ledger (id, run_id, conversation_id, profile, purpose, provider, model, state, input_tokens,
    output_tokens, cached, cache_write, reasoning, estimated, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET run_id = excluded.run_id, conversation_id = excluded.conversation_id,
    profile = excluded.profile, purpose = excluded.purpose, provider = excluded.provider, model = excluded.model,
    state = excluded.state, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    cached = excluded.cached, cache_write = excluded.cache_write, reasoning = excluded.reasoning,
    estimated = excluded.estimated, at = excluded.at

-- name: ledger.reserved
SELECT min(at) FROM ledger WHERE state = 'reserved' AND at >= ? AND at < ?

-- The sums of a range, by one column.

-- name: @sums
count(*), sum(input_tokens), sum(output_tokens), sum(cached), sum(cache_write), sum(reasoning),
max(CASE WHEN state = 'reserved' THEN 1 ELSE estimated END)

-- name: @span
FROM ledger WHERE at >= ? AND at < ?

-- name: ledger.sum.model
SELECT model, @sums @span GROUP BY model

-- name: ledger.sum.source
SELECT provider || '/' || model, @sums @span GROUP BY provider, model

-- name: ledger.sum.conversation
SELECT conversation_id, @sums @span GROUP BY conversation_id

-- name: ledger.sum.profile
SELECT profile, @sums @span GROUP BY profile

-- name: ledger.sum.purpose
SELECT purpose, @sums @span GROUP BY purpose

-- name: ledger.sum.conversation.source
SELECT conversation_id || ' ' || provider || '/' || model, @sums @span GROUP BY conversation_id, provider, model

-- name: ledger.sum.profile.source
SELECT profile || ' ' || provider || '/' || model, @sums @span GROUP BY profile, provider, model

-- name: ledger.sum.purpose.source
SELECT purpose || ' ' || provider || '/' || model, @sums @span GROUP BY purpose, provider, model

-- name: ledger.sum.all
SELECT '', @sums @span HAVING count(*) > 0

-- Every zone's midnight falls on a quarter of an hour.

-- name: ledger.sum.quarter
SELECT at / 900000000, @sums @span GROUP BY at / 900000000

-- name: @permit
id, actor, rule, run_id, once, given_by, via, created_at, expires_at, revoked_at

-- name: grant.insert
INSERT INTO permit (@permit) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: grant.live
SELECT @permit FROM permit WHERE revoked_at = 0 AND (expires_at = 0 OR expires_at > ?) ORDER BY created_at, id

-- name: grant.exists
SELECT 1 FROM permit WHERE id = ?

-- name: grant.end
UPDATE permit SET revoked_at = ? WHERE id = ? AND revoked_at = 0

-- name: @audit
id, at, actor, act, subject, verdict, rule, detail

-- name: audit.insert
INSERT INTO audit (@audit) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: audit.list
SELECT n, @audit FROM audit WHERE n < ? ORDER BY n DESC LIMIT ?
