SELECT type, summary, COALESCE(detail, ''), confidence, importance, durability, evidence_count, created_at
FROM memories WHERE dismissed = 0 AND superseded_by IS NULL ORDER BY created_at
