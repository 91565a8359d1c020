package sqlstore

// EngineVersion is the database engine's own.
func (tx *Tx) EngineVersion() (string, error) {
	var v string
	err := tx.one("info.version", nil, &v)
	return v, err
}

// RowCounts estimates how many rows the larger tables hold, without reading
// them.
func (tx *Tx) RowCounts() (map[string]int64, error) {
	rows, err := tx.query("info.rows")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[string]int64)
	for rows.Next() {
		var name string
		var n int64
		if err := rows.Scan(&name, &n); err != nil {
			return nil, tx.classify(err)
		}
		out[name] = n
	}
	return out, tx.close(rows)
}

// Bytes is the size of the database on its server.
func (tx *Tx) Bytes() (int64, error) {
	var n int64
	err := tx.one("info.bytes", nil, &n)
	return n, err
}
