package intake

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/store"
)

const scheduleArgs = "[show|run|rehearse|pause|resume|remove SCHEDULE] [remind|add WHEN: TEXT]"

func scheduleWords(tx *engine.Tx, _ Call) ([]string, error) {
	words := []string{"add", "remind"}
	all, _, err := tx.Schedules(store.Page{Limit: 20})
	for _, verb := range []string{"show", "run", "rehearse", "pause", "resume", "remove"} {
		for _, sch := range all {
			words = append(words, verb+" "+sch.ID)
		}
	}
	return words, err
}

// scheduleNeeds is what each word of the command takes.
var scheduleNeeds = map[string]mercury.Permission{"show": mercury.ListTasks, "run": mercury.CreateTasks, "rehearse": mercury.CreateTasks,
	"pause": mercury.PauseTasks, "resume": mercury.ResumeTasks, "remove": mercury.DeleteTasks, "add": mercury.CreateTasks, "remind": mercury.CreateTasks}

// schedules lists what starts by itself, shows one, changes one or adds one.
func (i *Intake) schedules(tx *engine.Tx, call Call) (Reply, error) {
	s := i.opts.Schedules
	if s == nil {
		return Reply{}, &mercury.Error{Kind: mercury.Setup, Err: errors.New("there are no schedules here")}
	}
	verb, rest, _ := strings.Cut(strings.TrimSpace(call.Args), " ")
	verb, rest = strings.ToLower(verb), strings.TrimSpace(rest)
	if verb == "" || verb == "list" {
		all, _, err := tx.Schedules(store.Page{Limit: 100})
		return Reply{Text: s.ListText(all)}, err
	}
	needs, known := scheduleNeeds[verb]
	if !known || rest == "" {
		return Reply{}, invalid(fmt.Sprintf("%q is not known here", call.Args), "Say /schedules "+scheduleArgs+". For instance: /schedules remind tomorrow at 9: call Ada.")
	}
	if !i.opts.May(call.Actor.Role, needs) {
		return Reply{}, &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("you may not %s schedules", verb)}
	}
	if verb == "add" || verb == "remind" {
		return i.addSchedule(tx, call, verb, rest)
	}
	sch, err := schedule.Find(tx, rest)
	if err != nil {
		return Reply{}, err
	}
	switch verb {
	case "pause":
		sch, err = s.Pause(tx, sch.ID, "paused by "+orElse(call.Actor.Name, string(call.Actor.Role)))
	case "resume":
		sch, err = s.Resume(tx, sch.ID)
	case "remove":
		sch, err = s.Remove(tx, sch.ID)
		return Reply{Text: sch.Name + " is removed."}, err
	case "run", "rehearse":
		o, err := s.RunNow(call.Context, tx, sch.ID, verb == "rehearse")
		text := sch.Name + " runs now"
		if o.RunID != "" {
			text += ", as " + o.RunID
		}
		if verb == "rehearse" {
			text += ". Everything it needs is asked; what you allow is all it may do from then on"
		}
		return Reply{Text: text + "."}, err
	}
	if err != nil {
		return Reply{}, err
	}
	return i.showSchedule(tx, sch)
}

func (i *Intake) addSchedule(tx *engine.Tx, call Call, verb, rest string) (Reply, error) {
	when, text, ok := cutWhen(rest)
	if !ok {
		return Reply{}, invalid("it names no time, or nothing to do", "Write the time, a colon and the words: /schedules "+verb+" every weekday at 8: what is new?")
	}
	d := schedule.Draft{When: when, Prompt: text}
	if verb == "remind" {
		d = schedule.Draft{When: when, Send: text}
	}
	sch, err := i.opts.Schedules.New(d, call.Actor, call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	if err := i.opts.Schedules.Add(tx, sch); err != nil {
		return Reply{}, err
	}
	return i.showSchedule(tx, sch)
}

// cutWhen splits at the first colon that is not part of a time of day.
func cutWhen(text string) (when, rest string, ok bool) {
	for at := 0; at < len(text); at++ {
		digit := func(n int) bool { return n >= 0 && n < len(text) && text[n] >= '0' && text[n] <= '9' }
		if text[at] != ':' || digit(at-1) && digit(at+1) {
			continue
		}
		when, rest = strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+1:])
		return when, rest, when != "" && rest != ""
	}
	return "", "", false
}

// showSchedule is the card of one schedule with its id and what it did last.
func (i *Intake) showSchedule(tx *engine.Tx, sch store.Schedule) (Reply, error) {
	v, err := i.opts.Schedules.Look(tx, sch)
	if err != nil {
		return Reply{}, err
	}
	last, _, err := tx.Occurrences(sch.ID, store.Page{Limit: 5})
	if err != nil {
		return Reply{}, err
	}
	text := sch.ID + ", " + sch.State
	if sch.Reason != "" {
		text += " (" + sch.Reason + ")"
	}
	text += "\n" + v.Card()
	for _, o := range last {
		text += "\n" + OccurrenceText(o, time.Local)
	}
	return Reply{Text: text}, nil
}

// OccurrenceText is an occurrence in one line.
func OccurrenceText(o store.Occurrence, zone *time.Location) string {
	text := "· " + o.DueAt.In(zone).Format("2006-01-02 15:04") + " " + o.State
	switch {
	case o.Manual && o.Rehearsal:
		text += ", rehearsal"
	case o.Manual:
		text += ", by hand"
	}
	if o.EndedAt.IsZero() {
		text += ", at work"
	} else if o.Outcome == "failed" {
		text += ", failed"
	}
	if o.Covers > 1 {
		text += fmt.Sprintf(", %d times", o.Covers)
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}
