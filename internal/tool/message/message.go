// Package message holds the tools with which a model sends something besides
// its answer, and looks at what it has used.
//
// What is sent is stored with the step of the call, so it is sent once whatever
// happens. To whom it may go is the gate's to say.
package message

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/file"
)

//go:embed send_message.md
var messageUsage string

//go:embed send_file.md
var fileUsage string

//go:embed budget.md
var budgetUsage string

// Limits of what is sent, in bytes.
const (
	textMax = 64 << 10
	fileMax = 50 << 20
)

// Options tune the tools. View is required.
type Options struct {
	Files file.Options // through which files to send are read
	Sent  string       // folder that keeps what is sent as it was; required by send_file
	// View reads the store, for what was used.
	View  func(ctx context.Context, fn func(store.Tx) error) error
	Daily int64          // tokens a day; 0: no limit
	Zone  *time.Location // whose day; default the machine's
}

// Tools returns send_message, send_file and budget_status.
func Tools(o Options) []tool.Tool {
	if o.Zone == nil {
		o.Zone = time.Local
	}
	return []tool.Tool{o.message(), o.file(), o.budget()}
}

// An emitter is a transaction that takes deliveries.
type emitter interface {
	Emit(d mercury.Delivery) (mercury.Delivery, bool, error)
}

type messageInput struct {
	Text string `json:"text"`
	To   string `json:"to,omitempty" jsonschema:"address, as channel/place"`
}

func (o Options) message() tool.Tool {
	return tool.Define(tool.Definition[messageInput]{
		Name: "send_message", Usage: messageUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in messageInput) ([]mercury.Access, error) {
			if strings.TrimSpace(in.Text) == "" {
				return nil, invalid("the text is empty", "")
			}
			if len(in.Text) > textMax {
				return nil, invalid(fmt.Sprintf("the text has %d bytes; at most %d are sent at once", len(in.Text), textMax), "Send a file.")
			}
			to, err := address(c, in.To)
			return []mercury.Access{{Kind: mercury.SendTo, Target: to}}, err
		},
		Show: func(_ context.Context, c tool.Call, in messageInput) string {
			to, err := address(c, in.To)
			if err != nil {
				return ""
			}
			return fmt.Sprintf("To %s:\n\n%s", to, in.Text)
		},
		Run: func(_ context.Context, c tool.Call, in messageInput) (tool.Output, error) {
			to, err := allowed(c, in.To)
			if err != nil {
				return tool.Output{}, err
			}
			return send(c, mercury.Delivery{Address: to, Text: in.Text}), nil
		},
	})
}

type fileInput struct {
	Path string `json:"path"`
	To   string `json:"to,omitempty" jsonschema:"address, as channel/place"`
	Text string `json:"text,omitempty" jsonschema:"words that go with it"`
}

func (o Options) file() tool.Tool {
	return tool.Define(tool.Definition[fileInput]{
		Name: "send_file", Usage: fileUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in fileInput) ([]mercury.Access, error) {
			to, err := address(c, in.To)
			if err != nil {
				return nil, err
			}
			read, err := file.NewView(o.Files, c).Access(mercury.ReadPath, in.Path)
			if err != nil {
				return nil, err
			}
			return []mercury.Access{{Kind: mercury.SendTo, Target: to, Detail: "the file " + read.Target}, read}, nil
		},
		Run: func(ctx context.Context, c tool.Call, in fileInput) (tool.Output, error) {
			to, err := allowed(c, in.To)
			if err != nil {
				return tool.Output{}, err
			}
			f, err := o.copy(ctx, c, in.Path)
			if err != nil {
				return tool.Output{}, err
			}
			return send(c, mercury.Delivery{Address: to, Text: in.Text, Files: []mercury.File{f}}), nil
		},
	})
}

// copy keeps the file as it is now: what is sent later is what was looked at.
func (o Options) copy(ctx context.Context, c tool.Call, path string) (mercury.File, error) {
	in, info, err := file.NewView(o.Files, c).Open(path)
	if err != nil {
		return mercury.File{}, err
	}
	defer in.Close()
	if info.Size() > fileMax {
		return mercury.File{}, invalid(fmt.Sprintf("the file has %d bytes; at most %d are sent", info.Size(), fileMax), "")
	}
	if err := ctx.Err(); err != nil {
		return mercury.File{}, err
	}
	if o.Sent == "" {
		return mercury.File{}, errors.New("there is nowhere to keep what is sent")
	}
	dir := filepath.Join(o.Sent, mercury.NewID("file"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return mercury.File{}, fmt.Errorf("keep the file: %w", err)
	}
	name := filepath.Base(info.Name())
	out, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return mercury.File{}, fmt.Errorf("keep the file: %w", err)
	}
	n, err := io.Copy(out, io.LimitReader(in, fileMax))
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return mercury.File{}, fmt.Errorf("keep the file: %w", err)
	}
	return mercury.File{Name: name, Path: out.Name(), Size: n}, nil
}

// address is where something goes: what was named, else where the answer goes.
func address(c tool.Call, to string) (string, error) {
	if to == "" {
		to = c.Mandate.Destination
	}
	if to == "" {
		to = c.ConversationID
	}
	channel, place, ok := strings.Cut(to, "/")
	if !ok || channel == "" || place == "" || strings.ContainsAny(to, " \t\r\n") {
		return "", invalid(fmt.Sprintf("%q is no address", to), "An address is channel/place, such as telegram/12345; without one it goes to this conversation.")
	}
	return to, nil
}

// allowed is the address, if sending there was granted.
func allowed(c tool.Call, to string) (string, error) {
	to, err := address(c, to)
	if err != nil {
		return "", err
	}
	for _, g := range c.Granted {
		if g.Kind == mercury.SendTo && g.Target == to {
			return to, nil
		}
	}
	return "", &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("sending to %s was not allowed", to)}
}

// send stores the delivery with the step. The request is the call's own, so
// that one call is one delivery.
func send(c tool.Call, d mercury.Delivery) tool.Output {
	d.ID, d.Kind = mercury.NewID("dl"), mercury.DirectDelivery
	d.ConversationID, d.RunID, d.RequestID = c.ConversationID, c.RunID, "tool/"+c.RunID+"/"+c.ID
	return tool.Output{Text: fmt.Sprintf("%s is on its way to %s.", d.ID, d.Address), Commit: func(tx store.Tx) error {
		e, ok := tx.(emitter)
		if !ok {
			return errors.New("send: this transaction takes no deliveries")
		}
		_, again, err := e.Emit(d)
		if err != nil || again {
			return err
		}
		if d.Address != c.ConversationID {
			return mention(tx, c, d)
		}
		if mercury.ChannelOf(d.Address) != "local" {
			return nil
		}
		// Here people read the conversation, not deliveries.
		text := d.Text
		for _, f := range d.Files {
			text = strings.TrimSpace(text + "\n[file " + f.Name + ": " + f.Path + "]")
		}
		_, err = tx.Append(c.ConversationID, mercury.Entry{Kind: mercury.NoteEntry, RunID: c.RunID, Text: text, Hidden: true})
		return err
	}}
}

type budgetInput struct{}

func (o Options) budget() tool.Tool {
	return tool.Define(tool.Definition[budgetInput]{
		Name: "budget_status", Usage: budgetUsage, Effect: mercury.Read,
		Access: func(context.Context, tool.Call, budgetInput) ([]mercury.Access, error) {
			return []mercury.Access{{Kind: mercury.OwnState, Target: "usage"}}, nil
		},
		Run: func(ctx context.Context, _ tool.Call, _ budgetInput) (tool.Output, error) {
			var sums []store.UsageSum
			err := o.View(ctx, func(tx store.Tx) (err error) {
				from := midnight(tx.Now().In(o.Zone))
				sums, err = tx.SumUsage("model", from, from.AddDate(0, 0, 1), o.Zone)
				return err
			})
			if err != nil {
				return tool.Output{}, fmt.Errorf("read what was used: %w", err)
			}
			return tool.Output{Text: o.spent(sums)}, nil
		},
	})
}

func midnight(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
}

func (o Options) spent(sums []store.UsageSum) string {
	var b strings.Builder
	var used int64
	for _, s := range sums {
		used += s.Usage.Weight()
		about := ""
		if s.Usage.Estimated {
			about = ", some of it estimated"
		}
		fmt.Fprintf(&b, "%s: %d calls, %d tokens in, %d out%s\n", s.Group, s.Calls, s.Usage.Input, s.Usage.Output, about)
	}
	if len(sums) == 0 {
		b.WriteString("Nothing was used today.\n")
	}
	if o.Daily > 0 {
		fmt.Fprintf(&b, "Today %d of %d tokens; %d are left.", used, o.Daily, max(0, o.Daily-used))
	} else {
		fmt.Fprintf(&b, "Today %d tokens; there is no daily limit.", used)
	}
	return b.String()
}

func invalid(text, help string) error {
	return &mercury.Error{Kind: mercury.Invalid, Help: help, Err: errors.New(text)}
}

// mention writes into the conversation of the address, if there is one, what
// was sent there: whoever answers in it next knows of it. It starts nothing.
func mention(tx store.Tx, c tool.Call, d mercury.Delivery) error {
	if _, err := tx.LockConversation(d.Address); errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	text := fmt.Sprintf("[Sent here by %s, as %s] %s", c.ConversationID, d.ID, d.Text)
	for _, f := range d.Files {
		text = strings.TrimSpace(text + "\n[file " + f.Name + "]")
	}
	_, err := tx.Append(d.Address, mercury.Entry{Kind: mercury.NoteEntry, RunID: c.RunID, Text: text, Taint: c.Taint})
	return err
}
