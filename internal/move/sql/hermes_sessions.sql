SELECT id, COALESCE(title, ''), COALESCE(source, ''), COALESCE(started_at, 0) FROM sessions ORDER BY started_at
