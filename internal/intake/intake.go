// Package intake decides what becomes of an arriving message. Every channel,
// the terminal and the HTTP API hand their messages to Accept, which asks, in
// this order: have we seen it, who is it, is it an answer or a command, does
// it address us, is there room. What it accepts is on disk when it returns.
//
// Commands exist once, here, with their help, their completion and who may
// use them; every face offers the same ones.
package intake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/skill"
	"github.com/mercury-agent/mercury/internal/store"
)

// MaxText is the longest text accepted as one message, in bytes.
const MaxText = 1 << 20

// Options tune an Intake. A zero field means its default.
type Options struct {
	// Role says who a sender is. By default whoever is on the local channel
	// is the owner and everyone else a stranger.
	Role func(channel string, sender mercury.Actor) mercury.Role
	// May says what a role may ask for; default permission.DefaultRoles.
	May func(mercury.Role, mercury.Permission) bool
	// Limit says how much one person may write and use; it may be nil. Spent
	// tokens are counted from midnight in Zone.
	Limit func(mercury.Actor) Limit
	Zone  *time.Location // default the machine's
	// Commands are added to the built-in ones.
	Commands []Command
	// Rate bounds the messages of one member; default 10 per minute. Owners,
	// admins and commands are not counted.
	Rate Rate
	// Undo takes back what a run did, or only looks, inside a transaction. Nil:
	// nothing can be undone.
	Undo func(ctx context.Context, tx store.Tx, run, conversation string, apply bool, by mercury.Actor) (mercury.Undone, error)
	// Jobs is where commands run in the background; nil: nowhere.
	Jobs Jobs
	// Schedules start work by themselves; nil: there are none.
	Schedules *schedule.Schedules
	// Models is who knows and chooses the models; nil: nobody.
	Models Models
	// Skills are what can be used by name; nil: there are none.
	Skills *skill.Library
	// Budget is what a day and a month may cost; nil: none is kept.
	Budget Budget
	// Anatomy takes the next request apart; nil: nobody can.
	Anatomy Anatomy
	// Reload reads settings anew and says what changed; nil: nobody can.
	Reload func(ctx context.Context) (string, error)
	Log    *slog.Logger // default discards
}

// Intake takes messages in.
type Intake struct {
	engine   *engine.Engine
	opts     Options
	commands registry
	rate     *limiter
	modes    chan time.Time // ends of modes that were chosen for a time
}

// New returns an Intake that stores what it accepts through e.
func New(e *engine.Engine, o Options) *Intake {
	if o.Role == nil {
		o.Role = func(channel string, _ mercury.Actor) mercury.Role {
			if channel == "local" {
				return mercury.Owner
			}
			return mercury.Stranger
		}
	}
	if o.Rate == (Rate{}) {
		o.Rate = Rate{Messages: 10, Per: time.Minute}
	}
	if o.May == nil {
		o.May = permission.DefaultRoles().May
	}
	if o.Zone == nil {
		o.Zone = time.Local
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	i := &Intake{engine: e, opts: o, rate: newLimiter(), modes: make(chan time.Time, 64)}
	i.commands = newRegistry(slices.Concat(builtin(i), memories(), o.Commands))
	return i
}

// Outcome says what became of a message.
type Outcome string

const (
	Started   Outcome = "started"  // it has a run
	Steered   Outcome = "steered"  // joins the running turn after its tools
	Queued    Outcome = "queued"   // waits for the running turn to end
	Written   Outcome = "written"  // kept as context; starts nothing
	Commanded Outcome = "command"  // handled now; Reply is the answer
	Answered  Outcome = "answer"   // settled a question
	Dropped   Outcome = "dropped"  // from a stranger, or an echo
	Refused   Outcome = "refused"  // not taken; its sender was told
	Repeated  Outcome = "repeated" // seen before; nothing happened again
)

// Result is what became of a message.
type Result struct {
	Input     mercury.Input
	RunID     string // empty for a waiting follow-up
	Duplicate bool
	Outcome   Outcome
	Reply     string // of a command, or why it was refused
}

// Accept takes one message in. When it returns nil the message is settled: on
// disk, or dropped or refused with its sender told. An error means that
// nothing was kept and the platform must offer it again, except for messages
// of the local channel, whose sender gets the error itself: mercury.Full for
// a full inbox, mercury.Invalid for a text over MaxText, mercury.Conflict for
// a known id with other content.
func (i *Intake) Accept(ctx context.Context, m mercury.Message) (Result, error) {
	m.Sender.Channel = m.Channel
	if m.Sender.Role == "" {
		m.Sender.Role = i.opts.Role(m.Channel, m.Sender)
	}
	if m.Sender.Role == mercury.Stranger {
		i.opts.Log.Info("message from a stranger dropped", "channel", m.Channel, "sender", m.Sender.ID)
		return Result{Outcome: Dropped}, nil
	}
	if len(m.Text) > MaxText {
		return i.refuse(ctx, m, &mercury.Error{Kind: mercury.Invalid,
			Err:  fmt.Errorf("the message has %d bytes, the limit is %d", len(m.Text), MaxText),
			Help: "Put the text into a file in the workspace and name the file."})
	}
	m.Text = i.skillPrompt(m)
	if name, args, ok := parseCommand(m.Text); ok && len(m.Files) == 0 {
		if c, known := i.commands.find(name); known {
			return i.command(ctx, m, c, args)
		}
		if m.Direct {
			return i.unknownCommand(ctx, m, name)
		}
	}
	if m.Direct && strings.TrimSpace(m.Text) == "" && len(m.Files) == 0 {
		return i.refuse(ctx, m, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("the message is empty")})
	}
	if m.Direct && m.Mode != mercury.Write {
		if r, done, err := i.answer(ctx, m); done || err != nil {
			return r, err
		}
	}
	if !m.Direct {
		m.Mode = mercury.Write
	}
	if !i.opts.May(m.Sender.Role, mercury.MayPrompt) {
		if !m.Direct {
			return Result{Outcome: Dropped}, nil
		}
		return i.refuse(ctx, m, &mercury.Error{Kind: mercury.Denied, Err: errors.New("you have no permission to use the agent")})
	}
	if why, err := i.over(ctx, m); why != nil || err != nil {
		if err != nil {
			return Result{}, err
		}
		known, err := i.known(ctx, m)
		if err != nil {
			return Result{}, err
		}
		if known.ID == "" {
			return i.refuse(ctx, m, why)
		}
	}
	return i.post(ctx, m)
}

// post stores the message and starts or queues its run, in one commit.
func (i *Intake) post(ctx context.Context, m mercury.Message) (Result, error) {
	in := input(m)
	var placed engine.Placement
	err := i.engine.Update(ctx, "accept", func(tx *engine.Tx) error {
		if err := ensureConversation(tx, m); err != nil {
			return err
		}
		var err error
		placed, err = place(tx, m, in)
		return err
	})
	switch kind := mercury.KindOf(err); {
	case err == nil:
		return result(placed), nil
	case errors.Is(err, store.ErrDiskFull) && m.Channel != "local":
		// Not its sender's fault: the platform keeps it until there is room.
		return Result{}, fmt.Errorf("accept message: %w", err)
	case kind == mercury.Full || kind == mercury.Invalid || kind == mercury.Conflict || kind == mercury.Denied:
		return i.refuse(ctx, m, err)
	default:
		return Result{}, fmt.Errorf("accept message: %w", err)
	}
}

func result(p engine.Placement) Result {
	r := Result{Input: p.Input, RunID: p.RunID, Duplicate: p.Duplicate, Outcome: Outcome(p.Outcome)}
	if p.Duplicate {
		r.Outcome = Repeated
	}
	return r
}

// refuse tells the sender that the message was not taken and why. A local
// sender gets the error; on other channels the notice is itself a delivery,
// and the message counts as settled so that the platform lets go of it.
func (i *Intake) refuse(ctx context.Context, m mercury.Message, cause error) (Result, error) {
	if m.Channel == "local" {
		return Result{Outcome: Refused}, cause
	}
	text := "That message was not taken: " + cause.Error() + "."
	if help := mercury.HelpOf(cause); help != "" {
		text += " " + help
	}
	err := i.engine.Update(ctx, "refuse", func(tx *engine.Tx) error {
		if err := ensureConversation(tx, m); err != nil {
			return err
		}
		_, _, err := tx.Emit(mercury.Delivery{Address: m.Conversation, ConversationID: m.Conversation,
			RequestID: "refused:" + m.ID, Kind: mercury.NoticeDelivery, Text: text})
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("refuse message: %w", err)
	}
	return Result{Outcome: Refused, Reply: text}, nil
}

// known returns the input of an earlier delivery of m, or a zero one.
func (i *Intake) known(ctx context.Context, m mercury.Message) (in mercury.Input, err error) {
	err = i.engine.View(ctx, func(tx store.Tx) error {
		in, err = tx.FindInput(m.Channel, messageKey(m))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	return in, err
}

// ensureConversation creates the conversation of a message whose sender may
// talk to us; a first message is how a chat comes to be.
func ensureConversation(tx *engine.Tx, m mercury.Message) error {
	_, err := tx.Conversation(m.Conversation)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	err = tx.InsertConversation(mercury.Conversation{ID: m.Conversation, Kind: "chat", CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// input is the durable form of a message.
func input(m mercury.Message) mercury.Input {
	if m.Mode == "" {
		m.Mode = mercury.Steer
	}
	return mercury.Input{
		ID: mercury.NewID("in"), Channel: m.Channel, MessageID: messageKey(m), ConversationID: m.Conversation,
		Actor: m.Sender, Mode: m.Mode, Text: m.Text, Files: m.Files, Digest: digest(m), SentAt: m.At,
	}
}

// messageKey is what makes a message one: platforms number theirs for the
// whole channel, while a local request id counts within its conversation.
func messageKey(m mercury.Message) string {
	if m.Channel == "local" {
		return m.Conversation + "\n" + m.ID
	}
	return m.ID
}

func digest(m mercury.Message) string {
	b, _ := json.Marshal(struct {
		Conversation, Text string
		Files              []mercury.File
	}{m.Conversation, m.Text, m.Files})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
