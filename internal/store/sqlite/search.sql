-- The index by words, in a file of its own. It can be made anew from the
-- database at any time, so it is written without syncs.
--
-- Rows stand under their number's opposite: what was made last comes first, and
-- FTS5 need not read a whole list backwards to begin at its end.

-- name: schema
CREATE TABLE IF NOT EXISTS mark (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scope (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5 (words, content='', contentless_delete=1, detail=none,
    tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'");
CREATE TABLE IF NOT EXISTS entry_place (n INTEGER PRIMARY KEY, conversation TEXT NOT NULL, seq INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS entry_mark (conversation TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS entry_words USING fts5 (words, content='', contentless_delete=1, detail=none,
    tokenize="unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'");

-- name: mark.get
SELECT value FROM mark WHERE name = ?

-- name: mark.set
INSERT OR REPLACE INTO mark (name, value) VALUES (?, ?)

-- name: scope.get
SELECT n FROM scope WHERE name = ?

-- name: scope.add
INSERT INTO scope (name) VALUES (?)

-- name: memory.drop
DELETE FROM memory_words WHERE rowid = -?

-- name: memory.put
INSERT OR REPLACE INTO memory_words (rowid, words) VALUES (-?, ?)

-- name: memory.optimize
INSERT INTO memory_words (memory_words) VALUES ('optimize')

-- name: memory.find
SELECT -rowid FROM memory_words WHERE memory_words MATCH ? ORDER BY rowid LIMIT ?

-- name: entry.place
INSERT INTO entry_place (conversation, seq) VALUES (?, ?)

-- name: entry.put
INSERT INTO entry_words (rowid, words) VALUES (-?, ?)

-- name: entry.marks
SELECT conversation, seq FROM entry_mark

-- name: entry.mark
INSERT OR REPLACE INTO entry_mark (conversation, seq) VALUES (?, ?)

-- name: entry.find
SELECT p.n, p.conversation, p.seq FROM entry_words AS w JOIN entry_place AS p ON p.n = -w.rowid
WHERE entry_words MATCH ? AND w.rowid > -? ORDER BY w.rowid LIMIT ?

-- name: entry.find.in
SELECT p.n, p.conversation, p.seq FROM entry_words AS w JOIN entry_place AS p ON p.n = -w.rowid
WHERE entry_words MATCH ? AND w.rowid > -? AND p.conversation = ? ORDER BY w.rowid LIMIT ?
