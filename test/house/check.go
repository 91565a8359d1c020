//go:build unix

package house

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the drivers under "pgx" and "sqlite"
	_ "modernc.org/sqlite"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

//go:embed check.sql
var checks string

// Kept is what the database holds after all is over.
type Kept struct {
	Inputs     map[string]mercury.Input // by channel and message id
	Entries    map[string][]mercury.Entry
	Runs       map[string]mercury.Run
	Steps      []mercury.Step
	Deliveries []mercury.Delivery
}

// Check compares what was said with what is stored and what was shown, and
// returns a sentence for each promise that was broken. No process may be
// running.
func (w *World) Check(ctx context.Context) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, text := range w.Model.Refusals() {
		fault("the model server refused a request: %s", text)
	}
	if err := w.checkRows(ctx, fault); err != nil {
		fault("look into the database: %v", err)
	}
	k, err := w.Kept(ctx)
	if err != nil {
		fault("read the store: %v", err)
		return faults
	}
	for _, s := range w.Spoken() {
		checkSaid(k, s, fault)
	}
	w.checkEffects(k, fault)
	w.checkShown(k, fault)
	return faults
}

// checkRows runs the queries of check.sql and the database's own check.
func (w *World) checkRows(ctx context.Context, fault func(string, ...any)) error {
	driver, source := "sqlite", "file:"+filepath.Join(w.houses[0].Home, sqlite.FileName)
	if w.Database != "" {
		driver, source = "pgx", w.Database
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, part := range strings.Split(checks, "-- ")[2:] {
		what, query, _ := strings.Cut(part, "\n")
		found, err := texts(ctx, db, query)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for _, row := range found {
			fault("%s: %s", what, row)
		}
	}
	if w.Database != "" {
		return nil
	}
	found, err := texts(ctx, db, "PRAGMA integrity_check")
	if !slices.Equal(found, []string{"ok"}) {
		fault("the database is damaged: %v", found)
	}
	return err
}

func texts(ctx context.Context, db *sql.DB, query string) ([]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// Kept reads the store as Mercury does.
func (w *World) Kept(ctx context.Context) (k Kept, err error) {
	var s store.Store
	if w.Database != "" {
		s, err = postgres.Open(ctx, w.Database, postgres.Options{})
	} else {
		s, err = sqlite.Open(ctx, w.houses[0].Home, sqlite.Options{})
	}
	if err != nil {
		return k, err
	}
	defer s.Close()
	err = s.View(ctx, func(tx store.Tx) error {
		k = Kept{Inputs: map[string]mercury.Input{}, Entries: map[string][]mercury.Entry{}, Runs: map[string]mercury.Run{}}
		for _, said := range w.Spoken() {
			if in, err := tx.FindInput(said.Channel, said.key()); err == nil {
				k.Inputs[said.Channel+"\n"+said.key()] = in
			}
		}
		all := store.Page{Limit: 1000}
		conversations, _, err := tx.Conversations(all)
		if err != nil {
			return err
		}
		for _, c := range conversations {
			if k.Entries[c.ID], err = tx.Entries(c.ID, 0, 0); err != nil {
				return err
			}
		}
		runs, _, err := tx.Runs(store.RunFilter{Page: all})
		if err != nil {
			return err
		}
		for _, r := range runs {
			k.Runs[r.ID] = r
			steps, err := tx.Steps(r.ID)
			if err != nil {
				return err
			}
			k.Steps = append(k.Steps, steps...)
		}
		k.Deliveries, _, err = tx.Deliveries(store.DeliveryFilter{Page: all})
		return err
	})
	return k, err
}

// Input is what was kept of a message.
func (k Kept) Input(s Said) (mercury.Input, bool) {
	in, ok := k.Inputs[s.Channel+"\n"+s.key()]
	return in, ok
}

// key is the message id under which intake keeps a message.
func (s Said) key() string {
	if s.Channel == "local" {
		return s.Conversation + "\n" + s.ID
	}
	return s.ID
}

// checkSaid holds one message to: kept once, in its conversation once, and
// answered, or unanswered for a reason.
func checkSaid(k Kept, s Said, fault func(string, ...any)) {
	in, ok := k.Inputs[s.Channel+"\n"+s.key()]
	if !ok {
		fault("%q was taken and is lost", s.Text)
		return
	}
	var at, answers int
	calls := map[int]bool{} // rounds of its run that called tools
	for _, e := range k.Entries[s.Conversation] {
		if e.Kind == mercury.ToolCallEntry && e.RunID == in.RunID {
			calls[e.Round] = true
		}
	}
	for _, e := range k.Entries[s.Conversation] {
		switch {
		case e.Kind == mercury.UserEntry && inputOf(e) == in.ID,
			s.Command && e.Kind == mercury.NoteEntry && e.Text == "["+s.Text+"]":
			at++
		case e.Kind == mercury.AssistantEntry && at > 0 && !e.Hidden && e.RunID == in.RunID && !calls[e.Round]:
			answers++
		}
	}
	if at != 1 {
		fault("%q is in its conversation %d times", s.Text, at)
	}
	if s.Command {
		replies := 0
		for _, d := range k.Deliveries {
			if d.Kind == mercury.CommandDelivery && d.RequestID == "command:"+s.key() {
				replies++
			}
		}
		if replies != 1 {
			fault("command %q has %d replies", s.Text, replies)
		}
		return
	}
	r := k.Runs[in.RunID]
	switch {
	case in.State == mercury.InputUnanswered && in.Reason != "" && r.State == mercury.RunStopped && r.Cancel != "":
	case in.State != mercury.InputDone:
		fault("%q is %s (%s), its run %s: %s", s.Text, in.State, in.Reason, r.State, r.Error)
	case answers == 0:
		fault("%q is done and has no answer", s.Text)
	}
}

func inputOf(e mercury.Entry) string {
	var d engine.InputData
	if json.Unmarshal(e.Data, &d) != nil {
		return ""
	}
	return d.InputID
}

// checkEffects holds the Once commands to: at most once, and where nobody
// knows, the model was told.
func (w *World) checkEffects(k Kept, fault func(string, ...any)) {
	for conversation, file := range Canaries {
		marks := w.Lines(file)
		if marks > 1 {
			fault("the command of %s ran %d times", conversation, marks)
		}
		for _, s := range k.Steps {
			if s.Name != "run_command" || k.Runs[s.RunID].ConversationID != conversation {
				continue
			}
			told := resultOf(k, s)
			switch s.State {
			case mercury.StepDone:
				if marks != 1 {
					fault("the command of %s is done and left %d marks", conversation, marks)
				}
			case mercury.StepUnknown:
				if !strings.Contains(told, "not known whether this ran") {
					fault("the command of %s is unknown and the model was told %q", conversation, told)
				}
			default:
				fault("the command of %s is %s: %s", conversation, s.State, told)
			}
		}
	}
}

// resultOf is what the model was told about a step.
func resultOf(k Kept, s mercury.Step) string {
	for _, e := range k.Entries[k.Runs[s.RunID].ConversationID] {
		if e.Kind == mercury.ToolResultEntry && e.RunID == s.RunID && e.CallID == s.CallID {
			return string(e.Data)
		}
	}
	return ""
}

// checkShown holds the bridge to: every part at most once, no text twice, and
// what was shown is what the receipts say.
func (w *World) checkShown(k Kept, fault func(string, ...any)) {
	requests, words := map[string]int{}, map[string]int{}
	for _, s := range append(w.Relay.Sent(), w.Before...) {
		if !s.Shown {
			continue
		}
		requests[s.Request]++
		words[s.Conversation+"\n"+s.Text]++
	}
	for request, n := range requests {
		if n > 1 {
			fault("part %s was shown %d times", request, n)
		}
	}
	for text, n := range words {
		if n > 1 {
			fault("a text was shown %d times: %.80q", n, text)
		}
	}
	for _, d := range k.Deliveries {
		if mercury.ChannelOf(d.Address) != "relay" {
			continue
		}
		for _, p := range d.Parts {
			shown := requests[fmt.Sprintf("%s/%d", d.ID, p.N)] > 0
			if p.State == mercury.DeliverySent && !shown || shown && p.State != mercury.DeliverySent && p.State != mercury.DeliveryUnknown {
				fault("part %d of delivery %s is %s, shown: %v", p.N, d.ID, p.State, shown)
			}
		}
	}
	for _, s := range w.Spoken() {
		w.checkReached(k, s, fault)
	}
}

// checkReached wants an answer to each message from the bridge on its way
// there: sent, or unknown, or replaced by a later one because more was said.
func (w *World) checkReached(k Kept, s Said, fault func(string, ...any)) {
	in := k.Inputs[s.Channel+"\n"+s.key()]
	if s.Channel != "relay" || s.Command || in.State != mercury.InputDone {
		return
	}
	for _, d := range k.Deliveries {
		if d.RunID == in.RunID && d.Kind == mercury.AnswerDelivery {
			switch d.State {
			case mercury.DeliverySent, mercury.DeliveryUnknown, mercury.DeliverySuperseded, mercury.DeliveryHeld:
				return
			}
		}
	}
	fault("%q is done and its answer is not on the bridge", s.Text)
}
