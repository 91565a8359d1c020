-- name: info.version
SELECT sqlite_version()

-- name: info.version postgres
SELECT split_part(current_setting('server_version'), ' ', 1)

-- name: info.rows
SELECT 'conversation', count(*) FROM conversation
UNION ALL SELECT 'entry', coalesce(sum(last_seq - CASE parent_id WHEN '' THEN 0 ELSE fork_seq END), 0) FROM conversation
UNION ALL SELECT 'input', coalesce(max(n), 0) FROM input
UNION ALL SELECT 'run', coalesce(max(n), 0) FROM run
UNION ALL SELECT 'question', coalesce(max(n), 0) FROM question
UNION ALL SELECT 'delivery', coalesce(max(n), 0) FROM delivery
UNION ALL SELECT 'audit', coalesce(max(n), 0) FROM audit

-- name: info.rows postgres
SELECT c.relname::text, greatest(c.reltuples, 0)::bigint
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS s ON s.oid = c.relnamespace
WHERE s.nspname = current_schema() AND c.relkind = 'r'

-- name: info.bytes postgres
SELECT pg_database_size(current_database())
