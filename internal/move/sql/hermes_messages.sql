SELECT role, COALESCE(content, ''), COALESCE(tool_name, ''), COALESCE(timestamp, 0) FROM messages WHERE session_id = ? ORDER BY timestamp, id
