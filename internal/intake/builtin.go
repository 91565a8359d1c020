package intake

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// builtin are the commands every face offers.
func builtin(i *Intake) []Command {
	return []Command{
		{Name: "help", Aliases: []string{"start"}, Args: "[COMMAND]", Help: "what you can say", Run: i.help},
		{Name: "status", Help: "what is going on here", Run: status},
		{Name: "stop", Needs: mercury.MayStop, Help: "stop the work of this conversation; what waits is answered next", Run: stop},
		{Name: "new", Needs: mercury.MayReset, Aliases: []string{"clear"}, Help: "begin afresh: earlier messages are kept but no longer used", Run: i.begin},
		{Name: "compact", Needs: mercury.MayCompact, Args: "[FOCUS]", Help: "shorten what I look at here to a summary; FOCUS names what must stay", Run: compact},
		{Name: "run", Args: "TIME [TASK]", Help: "work on by itself for a time such as 30m or 1h30m; again: until another time", Needs: mercury.MayPrompt, Roles: []mercury.Role{mercury.Admin}, Run: longRun, Complete: runTimes},
		{Name: "runs", Args: "[N]", Help: "the latest runs of this conversation", Run: runs},
		{Name: "questions", Help: "what waits for a decision", Needs: mercury.GetPermissions, Run: questions},
		{Name: "yes", Aliases: []string{"approve"}, Args: "[once|run|hour|always] [QUESTION]", Help: "allow what was asked", Needs: mercury.Answer, Run: yes, Complete: grantWords},
		{Name: "no", Aliases: []string{"deny"}, Args: "[QUESTION]", Help: "refuse what was asked", Needs: mercury.Answer, Run: no},
		{Name: "deliveries", Help: "messages that did not surely arrive", Needs: mercury.SeeDeliveries, Run: deliveries},
		{Name: "permissions", Args: "[show|revoke GRANT|ask|guided|allow-all] [for 30m|2h|this run]",
			Help: "what is granted; and how much is asked here", Roles: []mercury.Role{mercury.Owner}, Run: i.permissions, Complete: permissionWords},
		{Name: "bg", Args: "[output|stop|detach JOB]", Help: "commands that run in the background here", Needs: mercury.GetPermissions, Run: i.background},
		{Name: "schedules", Aliases: []string{"tasks"}, Args: scheduleArgs, Help: "what starts by itself, and when", Needs: mercury.ListTasks, Run: i.schedules, Complete: scheduleWords},
		{Name: "skills", Help: "what I have learned to do", Run: i.listSkills},
		{Name: "skill", Args: "NAME [TASK] | save", Help: "use a skill; save: make one of what we just did", Needs: mercury.MayPrompt, Run: i.oneSkill, Complete: i.skillNames},
		{Name: "budget", Args: budgetArgs, Help: "what a day and a month may cost, and how much is used", Roles: []mercury.Role{mercury.Owner}, Before: i.setBudget, Run: i.budget, Complete: budgetWords},
		{Name: "usage", Aliases: []string{"cost"}, Args: "[model|bot|conversation|day|purpose]", Help: "what was used today and this month, and what it costs", Roles: []mercury.Role{mercury.Owner}, Run: i.usage, Complete: usageWords},
		{Name: "context", Help: "what the model is sent here, and how full its window is", Needs: mercury.MayCompact, Before: i.takeApart, Run: i.context},
		{Name: "clean", Help: "put away text from outside, so that it no longer makes things ask", Needs: mercury.GetPermissions, Run: clean},
		{Name: "model", Args: "[MODEL]", Help: "which model answers; with a name, another one from the next turn on", Roles: []mercury.Role{mercury.Owner}, Before: i.useModel, Run: i.model, Complete: i.modelNames},
		{Name: "models", Args: "[PROVIDER]", Help: "what the providers offer, by their own lists", Roles: []mercury.Role{mercury.Owner}, Before: i.listModels, Run: i.models},
		{Name: "reload", Help: "read the settings anew; work in hand ends by what it began with", Roles: []mercury.Role{mercury.Owner}, Before: i.rereads, Run: reread},
		{Name: "undo", Args: "[yes] [RUN]", Help: "take back what the last run did to files; shows it first", Roles: []mercury.Role{mercury.Owner}, Run: i.undo},
	}
}

func permissionWords(*engine.Tx, Call) ([]string, error) {
	return []string{"show", "revoke", "ask", "guided", "allow-all for 30m", "allow-all for 2h", "allow-all for this run"}, nil
}

func (i *Intake) help(_ *engine.Tx, call Call) (Reply, error) {
	var b strings.Builder
	want := strings.TrimPrefix(strings.ToLower(call.Args), "/")
	for _, c := range i.Commands(call.Actor) {
		if want != "" && c.Name != want {
			continue
		}
		fmt.Fprintf(&b, "/%s", c.Name)
		if c.Args != "" {
			fmt.Fprintf(&b, " %s", c.Args)
		}
		fmt.Fprintf(&b, " – %s", c.Help)
		for _, a := range c.Aliases {
			fmt.Fprintf(&b, " (also /%s)", a)
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return Reply{}, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no command /%s", want), Help: "/help lists all of them."}
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

func status(tx *engine.Tx, call Call) (Reply, error) {
	var b strings.Builder
	run, err := tx.LiveRun(call.Conversation)
	switch {
	case errors.Is(err, store.ErrNotFound):
		b.WriteString("Idle: nothing is running here.")
	case err != nil:
		return Reply{}, err
	default:
		b.WriteString(describe(run, tx.Now()))
	}
	switch _, err := agent.Compaction(tx, call.Conversation); {
	case err == nil:
		b.WriteString("\nShortening this conversation. /stop ends that.")
	case !errors.Is(err, store.ErrNotFound):
		return Reply{}, err
	}
	waiting, err := tx.CountQueued(call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	if waiting > 0 {
		b.WriteString("\n" + messages(waiting, "waits its turn.", "wait their turn."))
	}
	long, err := longLine(tx, call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	b.WriteString(long)
	open, err := openQuestions(tx, call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	for _, q := range open {
		fmt.Fprintf(&b, "\nWaiting for your decision: %s (/yes or /no)", q.Title)
	}
	mode, err := modeLine(tx, call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	if mode != "" {
		b.WriteString("\n" + mode)
	}
	if !call.Actor.Trusted() {
		return Reply{Text: b.String()}, nil
	}
	depths, err := tx.Depths()
	if err != nil {
		return Reply{}, err
	}
	var queued, running, parked int
	for lane, d := range depths {
		if lane == mercury.Quiet {
			d.Queued = 0 // it waits for a quiet moment
		}
		queued, running, parked = queued+d.Queued, running+d.Running, parked+d.Waiting
	}
	fmt.Fprintf(&b, "\nIn all conversations: %d running, %d queued, %d waiting for someone.", running, queued, parked)
	counts, err := tx.CountDeliveries()
	if err != nil {
		return Reply{}, err
	}
	if n := counts[mercury.DeliveryUnknown]; n > 0 {
		b.WriteString("\n" + messages(n, "may or may not have arrived: /deliveries", "may or may not have arrived: /deliveries"))
	}
	if n := counts[mercury.DeliveryHeld]; n > 0 {
		b.WriteString("\n" + mercury.Count(n, "answer is", "answers are") + " held because you wrote again: /deliveries")
	}
	return Reply{Text: b.String()}, nil
}

// clean puts references in place of what came from outside.
func clean(tx *engine.Tx, call Call) (Reply, error) {
	c, err := tx.LockConversation(call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	entries, err := tx.Entries(call.Conversation, max(c.Head-1, 0), 0)
	if err != nil {
		return Reply{}, err
	}
	n := agent.Cleanable(entries)
	if n == 0 {
		return Reply{Text: "Nothing I look at here comes from outside."}, nil
	}
	if _, err := tx.Append(call.Conversation, agent.CleanNote(c.LastSeq)); err != nil {
		return Reply{}, err
	}
	return Reply{Text: fmt.Sprintf("Put away what came from outside (%d in all): kept for you, no longer seen by me. Files that hold such text keep their mark.", n)}, nil
}

// describe says in one line where a run stands.
func describe(r mercury.Run, now time.Time) string {
	since := func(t time.Time) time.Duration { return now.Sub(t).Round(time.Second) }
	switch r.State {
	case mercury.RunQueued:
		if r.NotBefore.After(now) {
			return fmt.Sprintf("Waiting to try again at %s: %s", r.NotBefore.Local().Format("15:04:05"), orElse(r.Error, "the model could not be reached"))
		}
		return fmt.Sprintf("Queued for %s.", since(r.CreatedAt))
	case mercury.RunRunning:
		return fmt.Sprintf("Working for %s. /stop ends it.", since(r.StartedAt))
	case mercury.RunWaiting:
		reason := "waiting"
		if r.Wait != nil && r.Wait.Reason != "" {
			reason = r.Wait.Reason
		}
		return fmt.Sprintf("Parked: %s. /stop ends it.", reason)
	case mercury.RunDone:
		return fmt.Sprintf("done %s ago, %d tokens in, %d out", since(r.EndedAt), r.Usage.Input, r.Usage.Output)
	}
	text := fmt.Sprintf("%s %s ago", r.State, since(r.EndedAt))
	if r.Error != "" {
		text += ": " + r.Error
	}
	return text
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func stop(tx *engine.Tx, call Call) (Reply, error) {
	shortened, err := stopCompaction(tx, call)
	if err != nil {
		return Reply{}, err
	}
	if reply, ended, err := stopLong(tx, call); ended || err != nil {
		return reply, err
	}
	run, err := tx.LiveRun(call.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		if shortened {
			return Reply{Text: "Stopped: the conversation stays as it was."}, nil
		}
		return Reply{Text: "Nothing is running here."}, nil
	}
	if err != nil {
		return Reply{}, err
	}
	if err := theirs(run, call.Actor); err != nil {
		return Reply{}, err
	}
	if err := tx.Cancel(run.ID, "stopped", call.Actor); err != nil {
		return Reply{}, err
	}
	waiting, err := tx.CountQueued(call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	text := "Stopped."
	if waiting > 0 {
		text = "Stopped. " + messages(waiting, "that waited is answered next.", "that waited are answered next.")
	}
	return Reply{Text: text, Visible: true}, nil
}

// theirs refuses to end the work of another person, but for owners and admins.
func theirs(run mercury.Run, a mercury.Actor) error {
	if a.Trusted() || run.Actor.ID == a.ID && run.Actor.Channel == a.Channel {
		return nil
	}
	return &mercury.Error{Kind: mercury.Denied, Err: errors.New("what runs here is another person's"), Help: "Its owner can end it."}
}

// begin ends the conversation's work, lets go of what waits in its inbox, and
// hides what came before from the model.
func (i *Intake) begin(tx *engine.Tx, call Call) (Reply, error) {
	if _, _, err := stopLong(tx, call); err != nil {
		return Reply{}, err
	}
	run, err := tx.LiveRun(call.Conversation)
	live := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Reply{}, err
	}
	if live {
		if err := theirs(run, call.Actor); err != nil {
			return Reply{}, err
		}
	}
	if err := i.endJobs(tx, call.Conversation, "its conversation was begun afresh"); err != nil {
		return Reply{}, err
	}
	let, err := tx.Withdraw(call.Conversation, "reset")
	if err != nil {
		return Reply{}, err
	}
	if live {
		if err := tx.Cancel(run.ID, "reset", call.Actor); err != nil {
			return Reply{}, err
		}
	}
	if err := tx.Reset(call.Conversation, call.Actor); err != nil {
		return Reply{}, err
	}
	text := "A fresh start. Earlier messages are kept; I no longer look at them."
	if let > 0 {
		text += " " + messages(let, "that waited was let go.", "that waited were let go.")
	}
	return Reply{Text: text}, nil
}

// rereads has the settings read before the reply is recorded: they are files,
// which no transaction can hold.
func (i *Intake) rereads(call Call) (any, error) {
	if i.opts.Reload == nil {
		return nil, invalid("settings cannot be read anew here", "They are read at the next start.")
	}
	return i.opts.Reload(call.Context)
}

func reread(_ *engine.Tx, call Call) (Reply, error) {
	text, _ := call.Found.(string)
	return Reply{Text: text}, nil
}

func runs(tx *engine.Tx, call Call) (Reply, error) {
	n := 5
	if call.Args != "" {
		if _, err := fmt.Sscanf(call.Args, "%d", &n); err != nil || n < 1 || n > 50 {
			return Reply{}, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q is not a number from 1 to 50", call.Args)}
		}
	}
	list, _, err := tx.Runs(store.RunFilter{ConversationID: call.Conversation, Page: store.Page{Limit: n}})
	if err != nil {
		return Reply{}, err
	}
	if len(list) == 0 {
		return Reply{Text: "No runs here yet."}, nil
	}
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%s  %s\n", r.ID, describe(r, tx.Now()))
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

func questions(tx *engine.Tx, call Call) (Reply, error) {
	open, err := tx.OpenQuestions("")
	if err != nil {
		return Reply{}, err
	}
	if len(open) == 0 {
		return Reply{Text: "Nothing waits for a decision."}, nil
	}
	var b strings.Builder
	for _, q := range open {
		fmt.Fprintf(&b, "%s  %s\n", q.ID, q.Title)
		if q.Body != "" {
			fmt.Fprintf(&b, "%s\n", q.Body)
		}
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

// grants are the words after /yes.
var grants = []string{mercury.AnswerOnce, mercury.AnswerRun, mercury.AnswerHour, mercury.AnswerAlways}

func grantWords(*engine.Tx, Call) ([]string, error) { return grants, nil }

func yes(tx *engine.Tx, call Call) (Reply, error) {
	answer := mercury.AnswerOnce
	words := strings.Fields(call.Args)
	if len(words) > 0 {
		for _, g := range grants {
			if strings.EqualFold(words[0], g) {
				answer, words = g, words[1:]
				break
			}
		}
	}
	return settle(tx, call, words, answer)
}

func no(tx *engine.Tx, call Call) (Reply, error) {
	return settle(tx, call, strings.Fields(call.Args), mercury.AnswerNo)
}

// settle answers the approval that is named, or all that wait in this
// conversation.
func settle(tx *engine.Tx, call Call, ids []string, answer string) (Reply, error) {
	if len(ids) == 0 {
		open, err := openQuestions(tx, call.Conversation)
		if err != nil {
			return Reply{}, err
		}
		for _, q := range open {
			if q.Kind == "approval" {
				ids = append(ids, q.ID)
			}
		}
		if len(ids) == 0 {
			return Reply{Text: "Nothing here waits for a yes or a no."}, nil
		}
	}
	var done []string
	for _, id := range ids {
		q, err := tx.Answer(id, answer, call.Actor, call.Channel)
		switch kind := mercury.KindOf(err); {
		case errors.Is(err, store.ErrNotFound):
			done = append(done, fmt.Sprintf("There is no question %s. /questions lists those that wait.", id))
			continue
		case kind == mercury.Conflict || kind == mercury.Denied: // said of this one; the others are answered
			done = append(done, sentence(err))
			continue
		case err != nil:
			return Reply{}, err
		}
		word := "Allowed (" + answer + ")"
		if answer == mercury.AnswerNo {
			word = "Refused"
		}
		line := word + ": " + q.Title
		if answer == mercury.AnswerAlways && q.Always != "" {
			line += "\nFrom now on without asking: " + q.Always
		}
		done = append(done, line)
	}
	return Reply{Text: strings.Join(done, "\n")}, nil
}

func deliveries(tx *engine.Tx, call Call) (Reply, error) {
	list, _, err := tx.Deliveries(store.DeliveryFilter{Page: store.Page{Limit: 20}, States: []mercury.DeliveryState{
		mercury.DeliveryUnknown, mercury.DeliveryHeld, mercury.DeliveryRefused}})
	if err != nil {
		return Reply{}, err
	}
	if len(list) == 0 {
		return Reply{Text: "Everything that was sent has arrived as far as its platform says."}, nil
	}
	var b strings.Builder
	for _, d := range list {
		fmt.Fprintf(&b, "%s  %s to %s: %s\n", d.ID, d.State, d.Address, preview(d.Text, 60))
	}
	b.WriteString("mercury deliveries resend ID sends one again.")
	return Reply{Text: b.String()}, nil
}

// preview is the first n characters of a text on one line.
func preview(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
