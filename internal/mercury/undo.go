package mercury

// Undone is what taking back a run's changes would do, or did.
type Undone struct {
	RunID   string       `json:"run_id"`
	Applied bool         `json:"applied"` // false: only looked
	Changes []UndoChange `json:"changes"` // newest first
	Cannot  []string     `json:"cannot"`  // what the run did that nothing takes back
}

// UndoChange is one change of a run.
type UndoChange struct {
	Act  string `json:"act"` // "write", "delete", "move", "grant"
	Path string `json:"path"`
	// Can says that it would be taken back, or was; Text says how, or why not.
	Can  bool   `json:"can"`
	Text string `json:"text"`
}
