package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// Bounds of what a server may say about itself.
const (
	toolsMax       = 200
	descriptionMax = 16 << 10
	schemaMax      = 32 << 10
)

// pin is what a person approved of a server.
type pin struct {
	Where string    `json:"where"` // hash of the command or address it was
	At    time.Time `json:"at"`
	Tools []pinned  `json:"tools"`
}

// pinned is one approved tool.
type pinned struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Hash        string          `json:"hash"`
	ReadOnly    bool            `json:"read_only,omitempty"`
	Seen        string          `json:"seen,omitempty"` // another hash that the server showed since; "gone" when it had none
}

// offer is one tool as a server describes it.
type offer struct {
	Name        string
	Description string
	Schema      json.RawMessage // compact, keys sorted
	ReadOnly    bool            // as the server says
	refused     string          // why it cannot be offered
}

// hash names everything about a tool that a model is told.
func (o offer) hash() string { return hashOf(o.Name, o.Description, string(o.Schema)) }

// hashOf is SHA-256 over the parts, each with its length.
func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func digestOf(s Server, offers []offer) string {
	parts := []string{s.whereHash()}
	for _, o := range offers {
		parts = append(parts, o.hash(), o.refused)
	}
	return hashOf(parts...)
}

func (s Server) where() string {
	if s.URL != "" {
		return s.URL
	}
	return strings.Join(s.Command, " ")
}

func (s Server) whereHash() string { return hashOf(append([]string{s.URL}, s.Command...)...) }

// state is the state of a server by what was approved and seen of it. An
// approval is for one command or address.
func (p pin) state(s Server) string {
	switch {
	case len(p.Tools) == 0 && p.At.IsZero():
		return StateNew
	case p.Where != s.whereHash():
		return StateChanged
	case slices.ContainsFunc(p.Tools, func(t pinned) bool { return t.Seen != "" }):
		return StateChanged
	}
	return StateApproved
}

func (t pinned) found(server string) Found {
	f := Found{Name: toolName(server, t.Name), Own: t.Name, Description: t.Description, Schema: string(t.Schema), State: StateApproved, ReadOnly: t.ReadOnly}
	switch t.Seen {
	case "":
	case seenGone:
		f.State = StateGone
	default:
		f.State = StateChanged
	}
	return f
}

const seenGone = "gone"

// compare says what a server has beside what was approved.
func compare(s Server, p pin, offers []offer) Catalogue {
	cat := Catalogue{Server: s.Name, Where: s.where(), State: StateNew, Digest: digestOf(s, offers), Tools: []Found{}}
	known := p.Where == s.whereHash()
	if len(p.Tools) > 0 || !p.At.IsZero() {
		cat.State = StateApproved
		if !known {
			cat.State = StateChanged
		}
	}
	for _, o := range offers {
		f := Found{Name: toolName(s.Name, o.Name), Own: o.Name, Description: o.Description, Schema: string(o.Schema), State: StateNew, ReadOnly: o.ReadOnly}
		i := slices.IndexFunc(p.Tools, func(t pinned) bool { return t.Name == o.Name })
		switch {
		case o.refused != "":
			f.State, f.Why, f.ReadOnly = StateRefused, o.refused, false
		case i >= 0 && known && p.Tools[i].Hash == o.hash():
			f.State, f.ReadOnly = StateApproved, p.Tools[i].ReadOnly
		case i >= 0:
			f.State = StateChanged
		}
		if f.State != StateApproved && f.State != StateRefused && cat.State == StateApproved {
			cat.State = StateChanged
		}
		cat.Tools = append(cat.Tools, f)
	}
	for _, t := range p.Tools {
		if !slices.ContainsFunc(offers, func(o offer) bool { return o.Name == t.Name }) {
			f := t.found(s.Name)
			f.State = StateGone
			cat.Tools = append(cat.Tools, f)
		}
	}
	return cat
}

func metaKey(server string) string { return "mcp.approved." + server }

// pins reads what was approved of every configured server.
func (c *Client) pins(ctx context.Context) (map[string]pin, error) {
	out := map[string]pin{}
	err := c.kept.View(ctx, func(tx store.Tx) error {
		clear(out)
		for _, name := range c.names {
			p, err := readPin(tx, name)
			if err != nil {
				return err
			}
			out[name] = p
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the approved MCP tools: %w", err)
	}
	return out, nil
}

func readPin(tx store.Tx, name string) (pin, error) {
	var p pin
	text, err := tx.MetaValue(metaKey(name))
	if errors.Is(err, store.ErrNotFound) || err == nil && text == "" {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

func (c *Client) keep(ctx context.Context, name string, p pin) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("keep the approval of %s: %w", name, err)
	}
	if err := c.kept.Update(ctx, func(tx store.Tx) error { return tx.SetMeta(metaKey(name), string(b)) }); err != nil {
		return fmt.Errorf("keep the approval of %s: %w", name, err)
	}
	return nil
}

// note keeps what a running server shows of its approved tools, so that a
// changed one is neither offered nor run.
func (c *Client) note(ctx context.Context, name string, offers []offer) error {
	return c.kept.Update(ctx, func(tx store.Tx) error {
		p, err := readPin(tx, name)
		if err != nil || len(p.Tools) == 0 {
			return err
		}
		before, err := json.Marshal(p)
		if err != nil {
			return err
		}
		for i, t := range p.Tools {
			p.Tools[i].Seen = seenGone
			for _, o := range offers {
				if o.Name == t.Name {
					p.Tools[i].Seen = ""
					if h := o.hash(); h != t.Hash {
						p.Tools[i].Seen = h
					}
				}
			}
		}
		after, err := json.Marshal(p)
		if err != nil || bytes.Equal(before, after) {
			return err
		}
		return tx.SetMeta(metaKey(name), string(after))
	})
}
