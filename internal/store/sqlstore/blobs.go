package sqlstore

import "time"

// PutBlob keeps content under ref, or marks it as wanted now if it is there.
func (tx *Tx) PutBlob(ref string, content []byte) error {
	now := micros(tx.Now())
	n, err := tx.exec("blob.touch", now, ref)
	if err != nil || n > 0 {
		return err
	}
	_, err = tx.exec("blob.put", ref, now, content)
	return err
}

// Blob returns what was put under ref.
func (tx *Tx) Blob(ref string) ([]byte, error) {
	var content []byte
	err := tx.one("blob.get", []any{ref}, &content)
	return content, err
}

// OldBlobs returns up to 1,000 refs beyond after, in order, that were last
// wanted before t.
func (tx *Tx) OldBlobs(t time.Time, after string) ([]string, error) {
	rows, err := tx.query("blob.old", micros(t), after)
	return all(tx, rows, err, func(s scanner) (string, error) {
		var ref string
		err := s.Scan(&ref)
		return ref, err
	})
}

// DeleteBlob removes ref unless it was wanted again since t.
func (tx *Tx) DeleteBlob(ref string, t time.Time) (bool, error) {
	n, err := tx.exec("blob.delete", ref, micros(t))
	return n > 0, err
}
