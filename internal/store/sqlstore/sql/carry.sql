-- Whole tables, read and written by their own description. {table}, {columns}
-- and the like are filled in with quoted names.

-- name: carry.columns
SELECT t.name, c.name, c.type, c.pk, CASE WHEN c.type = 'INTEGER' AND c.pk = 1 THEN 1 ELSE 0 END
FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c
WHERE t.schema = 'main' AND t.type = 'table'
ORDER BY t.name, c.cid

-- name: carry.columns postgres
SELECT c.table_name::text, c.column_name::text, c.data_type::text, coalesce(k.place, 0)::bigint,
    CASE c.is_identity WHEN 'YES' THEN 1 ELSE 0 END::bigint
FROM information_schema.columns AS c
JOIN information_schema.tables AS t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
LEFT JOIN (
    SELECT u.table_name, u.column_name, u.ordinal_position AS place
    FROM information_schema.table_constraints AS p
    JOIN information_schema.key_column_usage AS u
        ON u.constraint_schema = p.constraint_schema AND u.constraint_name = p.constraint_name AND u.table_name = p.table_name
    WHERE p.constraint_type = 'PRIMARY KEY' AND p.table_schema = current_schema()
) AS k ON k.table_name = c.table_name AND k.column_name = c.column_name
WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'
ORDER BY c.table_name, c.ordinal_position

-- name: carry.read
SELECT {columns} FROM {table}{order}

-- name: carry.insert
INSERT INTO {table} ({columns}) VALUES {rows}

-- name: carry.insert postgres
INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE VALUES {rows}

-- name: carry.clear
DELETE FROM {table}

-- The counter goes on after the highest number.
-- name: carry.filled postgres
SELECT setval(pg_get_serial_sequence('{table}', '{serial}'), coalesce(max("{serial}"), 0) + 1, false) FROM {table}

-- name: carry.contents postgres
SELECT ref, content FROM blob ORDER BY ref COLLATE "C"

-- name: carry.cleancontents postgres
DELETE FROM blob

-- A whole database takes as long as it takes.
-- name: carry.unhurried postgres
SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true), set_config('lock_timeout', '30s', true)

-- name: carry.schema postgres
CREATE SCHEMA {schema}

-- name: carry.aside postgres
ALTER TABLE {table} SET SCHEMA {schema}
