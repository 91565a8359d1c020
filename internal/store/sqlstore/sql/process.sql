-- name: clock postgres
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: notify postgres
SELECT pg_notify('mercury', ?)

-- name: hold.put
INSERT INTO hold (key, ends_at, reason, held_by) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET ends_at = excluded.ends_at, reason = excluded.reason, held_by = excluded.held_by

-- name: hold.delete
DELETE FROM hold WHERE key = ?

-- name: hold.list
SELECT key, ends_at, reason, held_by FROM hold WHERE ends_at = 0 OR ends_at > ? ORDER BY key

-- name: hold.over
DELETE FROM hold WHERE ends_at > 0 AND ends_at <= ?

-- name: hold.any
SELECT 1 FROM hold WHERE key IN (?) AND (ends_at = 0 OR ends_at > ?) LIMIT 1

-- name: hold.end
SELECT min(ends_at) FROM hold WHERE ends_at > ?

-- name: process.put
INSERT INTO process (id, node, name, version, digest, started_at, lease_until) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET node = excluded.node, name = excluded.name, version = excluded.version,
    digest = excluded.digest, started_at = excluded.started_at, lease_until = excluded.lease_until

-- name: process.renew
UPDATE process SET lease_until = ? WHERE id = ? AND lease_until > ?

-- name: process.delete
DELETE FROM process WHERE id = ?

-- name: process.list
SELECT id, node, name, version, digest, started_at, lease_until FROM process ORDER BY started_at, id

-- name: lease.take
INSERT INTO lease (name, owner, epoch, ends_at) VALUES (?, ?, 1, ?)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, ends_at = excluded.ends_at,
    epoch = CASE WHEN lease.owner = excluded.owner AND lease.ends_at > ? THEN lease.epoch ELSE lease.epoch + 1 END
WHERE lease.owner = excluded.owner OR lease.ends_at <= ?
RETURNING name, owner, epoch, ends_at

-- name: lease.get
SELECT name, owner, epoch, ends_at FROM lease WHERE name = ?

-- name: lease.drop
UPDATE lease SET ends_at = 0 WHERE name = ? AND owner = ?

-- name: channel.get
SELECT name, place, epoch, data FROM channel WHERE name = ?

-- name: channel.put
INSERT INTO channel (name, place, epoch, data) VALUES (?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET place = excluded.place, epoch = excluded.epoch, data = excluded.data
WHERE channel.epoch <= excluded.epoch

-- name: meta.get
SELECT value FROM meta WHERE key = ?

-- name: meta.put
INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: schema.exists
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'

-- name: schema.exists postgres
SELECT count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS s ON s.oid = c.relnamespace
WHERE c.relname = 'meta' AND c.relkind = 'r' AND s.nspname = current_schema()

-- One process at a time migrates; the others wait here and then find it done.

-- name: schema.lock postgres
SELECT pg_advisory_xact_lock(7236828)

-- name: schema.patience postgres
SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)

-- name: encoding postgres
SELECT current_setting('server_encoding')
