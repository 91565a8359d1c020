package sqlstore

// everyday are the queries between a message and the first word of its answer:
// what accepting, claiming and beginning a turn writes and reads.
var everyday = struct{ writing, reading []string }{
	writing: []string{
		"conversation.lock", "conversation.insert", "conversation.appended", "input.find", "input.count",
		"input.insert", "entry.insert", "run.live", "run.insert", "run.claim", "run.lock", "ledger.put",
	},
	reading: []string{"conversation.get", "entry.after", "question.run", "delivery.recent"},
}

// Everyday returns the texts of the queries that an ordinary message needs
// before its answer begins, for a driver that prepares them beforehand: the
// first message after a start would wait for that.
func (d *Dialect) Everyday() (writing, reading []string) {
	for _, name := range everyday.writing {
		writing = append(writing, d.query(name))
	}
	// What Claim asks first, with the lists and pieces it has when nothing is
	// special.
	held, _ := d.bind(d.query("hold.any"), []any{list{"", ""}, 0})
	writing = append(writing, held, d.query("run.ready")+"\n"+d.query("run.ready.end"))
	for _, name := range everyday.reading {
		reading = append(reading, d.query(name))
	}
	return writing, reading
}
