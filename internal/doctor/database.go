package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// What is too long.
const (
	longRun      = 6 * time.Hour    // a run in hand
	longQueue    = 10 * time.Minute // ready, and nobody takes it
	longQuestion = time.Hour        // open, and perhaps nobody has seen it
	aheadOfClock = 5 * time.Minute  // written at a time that has not come yet
)

// database looks whether it is whole, and at what it says of work.
func (e *exam) database(ctx context.Context) {
	url := ""
	if e.config != nil {
		var err error
		if url, err = e.config.Database.URL.Value(); err != nil {
			e.add("database", Fault, err.Error(), cure(err, "Correct database.url in mercury.yaml."))
			return
		}
	}
	read := func(tx store.Tx, schema, known int) error {
		switch {
		case schema > known:
			e.add("database", Fault, fmt.Sprintf("it was written by a newer Mercury: it has schema %d, this program knows %d", schema, known),
				"Start the newer Mercury, or restore a backup from before its upgrade.")
			return nil
		case schema < known:
			e.add("database", Note, fmt.Sprintf("it has schema %d and is brought to %d at the next start; a snapshot is taken before", schema, known), "")
			return nil
		}
		e.add("database", Fine, fmt.Sprintf("whole, with schema %d", schema), "")
		return e.work(tx)
	}
	var err error
	if url == "" {
		err = sqlite.Look(ctx, e.Home.Dir(), true, read)
	} else {
		err = postgres.Look(ctx, url, read)
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrNotFound):
		e.add("database", Note, "there is none yet; it is made at the first start", "")
	case errors.Is(err, store.ErrDamaged):
		e.add("database", Fault, err.Error(), "Keep mercury.db and mercury.db-wal as they are, and restore the newest backup beside them: `mercury backup list`, then `mercury backup restore --to FOLDER`.")
	default:
		e.add("database", Fault, err.Error(), cure(err, "Make mercury.db readable for this user, or correct database.url in mercury.yaml."))
	}
}

// work looks at runs, messages, questions and what is held.
func (e *exam) work(tx store.Tx) error {
	for _, look := range []func(store.Tx) error{e.restored, e.runs, e.deliveries, e.questions, e.holds, e.failedBackup} {
		if err := look(tx); err != nil {
			return err
		}
	}
	return nil
}

func (e *exam) restored(tx store.Tx) error {
	h, err := backup.FindHeld(tx, nil)
	if err == nil && h != nil {
		e.add("restored", Warning, fmt.Sprintf("this home was restored on %s: %s and %s are held, and channels stay closed",
			h.At.Local().Format("2006-01-02 15:04"), some(len(h.Deliveries), "message", "messages"), some(len(h.Runs), "run", "runs")), "`mercury backup resume` shows them and lets it work.")
	}
	return err
}

func (e *exam) runs(tx store.Tx) error {
	now := tx.Now()
	count := map[mercury.RunState]int{}
	var slow, stuck []string
	for page := (store.Page{Limit: 1000}); ; {
		runs, next, err := tx.Runs(store.RunFilter{Page: page, States: []mercury.RunState{mercury.RunQueued, mercury.RunRunning, mercury.RunWaiting, mercury.RunDead}})
		if err != nil {
			return err
		}
		for _, r := range runs {
			count[r.State]++
			switch {
			case r.State == mercury.RunRunning && now.Sub(r.StartedAt) > longRun:
				slow = append(slow, r.ID)
			case r.State == mercury.RunQueued && e.status != nil && r.NotBefore.Before(now.Add(-longQueue)) && r.CreatedAt.Before(now.Add(-longQueue)):
				stuck = append(stuck, r.ID)
			}
			if r.CreatedAt.After(now.Add(aheadOfClock)) {
				e.add("clock", Warning, fmt.Sprintf("work was written down for %s, which is still to come: the clock went back", r.CreatedAt.Local().Format("2006-01-02 15:04")),
					"Compare the machine's clock with another one; what is due later than it should be comes when that time has come.")
				return nil
			}
		}
		if page.After = next; next == "" {
			break
		}
	}
	if n := count[mercury.RunDead]; n > 0 {
		e.add("runs", Warning, some(n, "run was", "runs were")+" given up", "`mercury runs list --state dead` shows them; `mercury runs replay` tries one again.")
	}
	if len(slow) > 0 {
		e.add("runs", Warning, some(len(slow), "run has", "runs have")+" been in hand for more than six hours: "+slow[0], "`mercury runs show` says what it does; `mercury runs cancel` ends it.")
	}
	if len(stuck) > 0 {
		e.add("runs", Warning, some(len(stuck), "run is", "runs are")+" ready and nobody takes it: "+stuck[0], "`mercury status` says what is held and why.")
	}
	if n := count[mercury.RunRunning] + count[mercury.RunQueued]; n > 0 && e.status == nil {
		e.add("runs", Note, some(n, "run goes", "runs go")+" on at the next start", "")
	}
	return nil
}

func (e *exam) deliveries(tx store.Tx) error {
	count, err := tx.CountDeliveries()
	if err != nil {
		return err
	}
	if n := count[mercury.DeliveryUnknown]; n > 0 {
		e.add("messages", Warning, some(n, "message", "messages")+" may or may not have arrived", "`mercury deliveries list --state unknown` shows them; `mercury deliveries resend` sends one again.")
	}
	if n := count[mercury.DeliveryPending]; n > 0 {
		old, _, err := tx.Deliveries(store.DeliveryFilter{States: []mercury.DeliveryState{mercury.DeliveryPending}, Page: store.Page{Limit: 1000}})
		if err != nil {
			return err
		}
		waits := 0
		for _, d := range old {
			if tx.Now().Sub(d.CreatedAt) > longQueue {
				waits++
			}
		}
		if waits > 0 && e.status != nil {
			e.add("messages", Warning, some(waits, "message has", "messages have")+" waited more than ten minutes to be sent", "`mercury deliveries list --state pending` shows where to; the log says why the channel takes none.")
		} else if e.status == nil {
			e.add("messages", Note, some(n, "message is", "messages are")+" sent at the next start", "")
		}
	}
	return nil
}

func (e *exam) questions(tx store.Tx) error {
	open, err := tx.OpenQuestions("")
	if err != nil || len(open) == 0 {
		return err
	}
	oldest := open[0]
	for _, q := range open {
		if q.CreatedAt.Before(oldest.CreatedAt) {
			oldest = q
		}
	}
	age := tx.Now().Sub(oldest.CreatedAt)
	if age < longQuestion {
		e.add("questions", Note, some(len(open), "question waits", "questions wait")+" for you", "`mercury questions list`")
		return nil
	}
	e.add("questions", Warning, fmt.Sprintf("%s for you, the oldest for %s: %s", some(len(open), "question waits", "questions wait"), long(age), oldest.Title),
		"`mercury questions list` shows them, `mercury questions answer` settles one; after a day they count as no.")
	return nil
}

func (e *exam) holds(tx store.Tx) error {
	holds, err := tx.Holds()
	for _, h := range holds {
		switch {
		case h.Until.IsZero():
			e.add("holds", Warning, fmt.Sprintf("%s is held without an end: %s", h.Key, h.Reason), "Whoever held it lets it go; `mercury status` shows it.")
		case h.Until.After(tx.Now()):
			e.add("holds", Note, fmt.Sprintf("%s is held until %s: %s", h.Key, h.Until.Local().Format("15:04"), h.Reason), "")
		}
	}
	return err
}

func (e *exam) failedBackup(tx store.Tx) error {
	f, err := backup.LastFailure(tx)
	if err == nil && f != nil {
		e.add("backups", Fault, fmt.Sprintf("the backup of %s was not made: %s", f.At.Local().Format("2006-01-02 15:04"), f.Error), cmp.Or(f.Help, "`mercury backup create` makes one now, or says what stands in the way."))
	}
	return err
}

// backups looks when the last one was made.
func (e *exam) backups() {
	list, err := backup.List(e.Home.Dir())
	if err != nil {
		e.add("backups", Warning, err.Error(), "Make the folder readable for this user.")
		return
	}
	var last backup.Info
	for _, b := range list {
		if b.Kind != backup.Migration && b.CreatedAt.After(last.CreatedAt) {
			last = b
		}
	}
	every := 24 * time.Hour
	if e.config != nil {
		every = time.Duration(e.config.Backup.Every)
	}
	age := time.Since(last.CreatedAt)
	switch {
	case last.Path == "" && every == 0:
		e.add("backups", Warning, "there is none, and none is made (backup.every is 0)", "`mercury backup create` makes one; copy it to another machine.")
	case last.Path == "":
		e.add("backups", Note, "there is none yet; the first one is made when Mercury has been there for a day", "`mercury backup create` makes one now.")
	case every > 0 && age > 2*every+time.Hour:
		e.add("backups", Warning, "the last one is "+long(age)+" old", "Let Mercury run, or make one with `mercury backup create`.")
	default:
		e.add("backups", Fine, "the last one is "+long(age)+" old; copy it to another machine", "")
	}
}
