-- Contents too large for their row, where the database keeps them: a SQLite
-- home has files instead.

-- name: blob.put
INSERT INTO blob (ref, at, content) VALUES (?, ?, ?) ON CONFLICT (ref) DO UPDATE SET at = excluded.at

-- name: blob.touch
UPDATE blob SET at = ? WHERE ref = ?

-- name: blob.get
SELECT content FROM blob WHERE ref = ?

-- name: blob.old
SELECT ref FROM blob WHERE at < ? AND ref > ? ORDER BY ref LIMIT 1000

-- name: blob.old postgres
SELECT ref FROM blob WHERE at < ? AND ref > ? COLLATE "C" ORDER BY ref COLLATE "C" LIMIT 1000

-- name: blob.delete
DELETE FROM blob WHERE ref = ? AND at < ?
