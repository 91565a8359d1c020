-- Each query finds rows that must not exist and returns one text a row.

-- a run is left live
SELECT id || ' ' || state FROM run WHERE state IN ('queued', 'running', 'waiting') AND NOT (lane = 'quiet' AND state = 'queued');

-- a step is left started
SELECT run_id || ' ' || call_id FROM step WHERE state = 'started';

-- an input is left open
SELECT id || ' ' || state FROM input WHERE state NOT IN ('done', 'unanswered');

-- an input is unanswered without a reason
SELECT id || ' ' || text FROM input WHERE state = 'unanswered' AND reason = '';

-- a delivery is left open
SELECT id || ' ' || state FROM delivery WHERE state IN ('pending', 'sending');

-- a question is left open
SELECT id FROM question WHERE state = 'open';

-- a conversation's entries are not dense
SELECT c.id FROM conversation c
WHERE c.last_seq <> (SELECT count(*) FROM entry e WHERE e.conversation_id = c.id)
   OR c.last_seq <> (SELECT coalesce(max(seq), 0) FROM entry e WHERE e.conversation_id = c.id);

-- a ledger row is negative
SELECT id FROM ledger WHERE input_tokens < 0 OR output_tokens < 0 OR cached < 0 OR cache_write < 0 OR reasoning < 0;

-- a model call that was answered is not in the ledger
SELECT s.run_id FROM step s WHERE s.kind = 'model' AND s.state = 'done'
GROUP BY s.run_id
HAVING count(*) > (SELECT count(*) FROM ledger l WHERE l.run_id = s.run_id AND l.state = 'settled');

-- a call has more than one result
SELECT run_id || ' ' || call_id FROM entry WHERE kind = 'tool_result'
GROUP BY conversation_id, run_id, round, call_id HAVING count(*) > 1;

-- a result has no call
SELECT run_id || ' ' || call_id FROM entry r WHERE kind = 'tool_result' AND NOT EXISTS (
    SELECT 1 FROM entry c WHERE c.kind = 'tool_call' AND c.conversation_id = r.conversation_id
       AND c.run_id = r.run_id AND c.round = r.round AND c.call_id = r.call_id AND c.seq < r.seq);

-- a call of a finished run has no result
SELECT c.run_id || ' ' || c.call_id FROM entry c JOIN run r ON r.id = c.run_id
WHERE c.kind = 'tool_call' AND r.state = 'done' AND NOT EXISTS (
    SELECT 1 FROM entry e WHERE e.kind = 'tool_result' AND e.conversation_id = c.conversation_id
       AND e.run_id = c.run_id AND e.round = c.round AND e.call_id = c.call_id);

-- a once-grant is left unused by a run that has ended
SELECT p.id FROM permit p JOIN run r ON r.id = p.run_id
WHERE p.once = 1 AND p.revoked_at = 0 AND p.expires_at = 0 AND r.state = 'done';
