package intake

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// A Command is something a person can say with a leading slash. It costs no
// tokens and is answered ahead of any queue.
type Command struct {
	Name    string   // without the slash
	Aliases []string //
	Args    string   // as shown in the help, such as "[once|run|hour|always]"
	Help    string   // one line
	// Needs is the permission it takes; empty is none. Roles may use it
	// besides; nil is everyone who has the permission.
	Needs mercury.Permission
	Roles []mercury.Role
	// Complete offers values for the argument typed so far; may be nil.
	Complete func(tx *engine.Tx, call Call) ([]string, error)
	// Before does what must not be waited for inside a transaction, such as
	// asking a provider; what it returns is Call.Found. A repeated message
	// calls it again. It may be nil; its error is told like one of Run.
	Before func(call Call) (any, error)
	// Run does it. The record of the command, what it changes and its reply
	// are one transaction, so Run is pure but for tx: it may be called again
	// when the transaction must be repeated. An error with a known kind is
	// told to the person as the reply.
	Run func(tx *engine.Tx, call Call) (Reply, error)
}

// Call is one use of a command.
type Call struct {
	Context      context.Context // of the message
	Conversation string
	Actor        mercury.Actor
	Channel      string
	Args         string
	Found        any // what Before returned
}

// Reply is what a command answers. Visible makes its record part of what the
// model sees later; other commands leave the model's view alone.
type Reply struct {
	Text    string
	Visible bool
}

// parseCommand splits "/name args". A path such as /etc/hosts is not a
// command: names are letters, digits, hyphens and underscores. On platforms
// that append it, the bot's own name after an @ is cut off.
func parseCommand(text string) (name, args string, ok bool) {
	text = strings.TrimSpace(text)
	rest, found := strings.CutPrefix(text, "/")
	if !found || rest == "" {
		return "", "", false
	}
	name, args = rest, ""
	if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
		name, args = rest[:i], strings.TrimSpace(rest[i:])
	}
	name, _, _ = strings.Cut(name, "@")
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_' {
			return "", "", false
		}
	}
	if name == "" {
		return "", "", false
	}
	return strings.ToLower(name), args, true
}

type registry struct {
	list   []Command
	byName map[string]Command
}

func newRegistry(commands []Command) registry {
	r := registry{byName: map[string]Command{}}
	for _, c := range commands {
		r.list = append(r.list, c)
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			r.byName[name] = c
		}
	}
	slices.SortFunc(r.list, func(a, b Command) int { return strings.Compare(a.Name, b.Name) })
	return r
}

func (r registry) find(name string) (Command, bool) {
	c, ok := r.byName[name]
	return c, ok
}

// Commands lists the commands that an actor may use, by name.
func (i *Intake) Commands(a mercury.Actor) []Command {
	var list []Command
	for _, c := range i.commands.list {
		if i.allowed(c, a) {
			list = append(list, c)
		}
	}
	return list
}

func (i *Intake) allowed(c Command, a mercury.Actor) bool {
	if c.Needs != "" && !i.opts.May(a.Role, c.Needs) {
		return false
	}
	return len(c.Roles) == 0 || a.Role == mercury.Owner || slices.Contains(c.Roles, a.Role)
}

// command runs c once for this message: a repeated message does nothing, and
// one that a crash interrupted left nothing behind and runs when it is offered
// again.
func (i *Intake) command(ctx context.Context, m mercury.Message, c Command, args string) (Result, error) {
	in := input(m)
	in.Mode, in.State = mercury.Write, mercury.InputDone
	r := Result{Input: in, Outcome: Commanded}
	call := Call{Context: ctx, Conversation: m.Conversation, Actor: m.Sender, Channel: m.Channel, Args: args}
	var early error
	if c.Before != nil && i.allowed(c, m.Sender) {
		call.Found, early = c.Before(call)
	}
	err := i.engine.Update(ctx, "command", func(tx *engine.Tx) error {
		dup, err := recordOnce(tx, m, in)
		if dup.ID != "" || err != nil {
			r = Result{Input: dup, Duplicate: true, Outcome: Repeated}
			return err
		}
		reply := Reply{Text: fmt.Sprintf("You have no permission to use '%s'.", c.Name)}
		if i.allowed(c, m.Sender) {
			if err = early; err == nil {
				reply, err = c.Run(tx, call)
			}
			if err != nil {
				if early == nil && (mercury.KindOf(err) == mercury.Unknown || mercury.KindOf(err) == mercury.Transient) {
					return err
				}
				reply = Reply{Text: sentence(err)}
			}
		}
		r.Reply = reply.Text
		return recordReply(tx, m, reply)
	})
	switch {
	case err == nil:
		return r, nil
	case mercury.KindOf(err) == mercury.Conflict:
		return i.refuse(ctx, m, err)
	}
	return Result{}, fmt.Errorf("command /%s: %w", c.Name, err)
}

// recordReply keeps what was said and answered as passive entries and sends
// the answer back.
func recordReply(tx *engine.Tx, m mercury.Message, reply Reply) error {
	said := mercury.Entry{Kind: mercury.NoteEntry, Actor: m.Sender, Text: "[" + strings.TrimSpace(m.Text) + "]", Hidden: !reply.Visible}
	entries := []mercury.Entry{said}
	if reply.Text != "" {
		entries = append(entries, mercury.Entry{Kind: mercury.NoteEntry, Text: reply.Text, Hidden: true})
	}
	if _, err := tx.Append(m.Conversation, entries...); err != nil {
		return err
	}
	if reply.Text == "" {
		return nil
	}
	_, _, err := tx.Emit(mercury.Delivery{Address: m.Conversation, ConversationID: m.Conversation,
		RequestID: "command:" + messageKey(m), Kind: mercury.CommandDelivery, Text: reply.Text})
	return err
}

// unknownCommand answers a slash word that is no command with the nearest
// ones, so that a typing error never becomes a paid question to the model.
func (i *Intake) unknownCommand(ctx context.Context, m mercury.Message, name string) (Result, error) {
	return i.command(ctx, m, Command{Name: name, Run: func(*engine.Tx, Call) (Reply, error) {
		text := fmt.Sprintf("There is no command /%s.", name)
		if near := i.commands.near(name); near != "" {
			text += fmt.Sprintf(" Did you mean /%s?", near)
		}
		return Reply{Text: text + " /help lists all of them."}, nil
	}}, "")
}

// near returns the command within two typing errors of name.
func (r registry) near(name string) string {
	best, at := "", 3
	for n := range r.byName {
		if d := distance(name, n); d < at || d == at && n < best {
			best, at = n, d
		}
	}
	return best
}

// distance is the edit distance of two short words.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(s); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(t)]
}

// sentence turns an error into a line for a person.
func sentence(err error) string {
	text := []rune(err.Error())
	text[0] = unicode.ToUpper(text[0])
	s := strings.TrimRight(string(text), ".") + "."
	if help := mercury.HelpOf(err); help != "" {
		s += " " + help
	}
	return s
}
