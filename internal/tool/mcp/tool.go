package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/foreign"
)

// shownMax bounds what a model is told of a tool's description, in bytes.
const shownMax = 300

// Tools returns the approved tools, from what is kept: no server is asked. A
// name in taken, or that an earlier server has, gets a piece of a hash. version
// names exactly this list; while it stays the same, so does every byte that a
// model is told.
func (c *Client) Tools(ctx context.Context, taken []string) (tools []tool.Tool, version string, err error) {
	if len(c.names) == 0 { // most homes: nothing to read at each turn
		return nil, "", nil
	}
	pins, err := c.pins(ctx)
	if err != nil {
		return nil, "", err
	}
	taken = slices.Clone(taken)
	var parts []string
	for _, name := range c.names {
		s, p := c.servers[name], pins[name]
		if p.Where != s.whereHash() {
			continue // another command or address was approved
		}
		for _, t := range p.Tools {
			if t.Seen != "" {
				continue
			}
			called := toolName(name, t.Name)
			if slices.Contains(taken, called) {
				called = apart(called, name, t.Name)
			}
			taken = append(taken, called)
			tools = append(tools, remote{client: c, server: s, pinned: t, spec: tool.Spec{
				Name: called, Description: described(name, t), Schema: bytes.Clone(t.Schema)}})
			parts = append(parts, called, t.Hash, fmt.Sprint(t.ReadOnly))
		}
	}
	return tools, hashOf(parts...), nil
}

// described is what a model is told: the server's words, on one line, without
// what hides or runs on.
func described(server string, t pinned) string {
	text := strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs) {
			return -1
		}
		return r
	}, tool.Clean(t.Description))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > shownMax {
		text = strings.ToValidUTF8(text[:shownMax], "") + "…"
	}
	if text == "" {
		text = t.Name
	}
	return "MCP server " + short(server) + ": " + text
}

// remote is one approved tool of a server.
type remote struct {
	client *Client
	server *server
	pinned pinned
	spec   tool.Spec
}

func (r remote) Spec() tool.Spec { return r.spec }

// Effect is Once unless a person said that the tool only reads.
func (r remote) Effect() mercury.Effect {
	if r.pinned.ReadOnly {
		return mercury.Read
	}
	return mercury.Once
}

func (r remote) target() string { return r.server.Name + "/" + r.pinned.Name }

// Accesses implements tool.Tool. What is sent along stands in the detail, so
// that an approval is for these very arguments.
func (r remote) Accesses(_ context.Context, c tool.Call) ([]mercury.Access, error) {
	args, err := arguments(c.Args)
	if err != nil {
		return nil, err
	}
	return []mercury.Access{{Kind: mercury.Foreign, Target: r.target(), Detail: string(args)}}, nil
}

// Show implements tool.Shower.
func (r remote) Show(_ context.Context, c tool.Call) string {
	args, err := arguments(c.Args)
	if err != nil {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, args, "", "  ") != nil {
		return ""
	}
	return fmt.Sprintf("call %s of the MCP server %s with\n%s", r.pinned.Name, r.server.Name, b.String())
}

// arguments are one JSON object in one spelling, no arguments an empty one.
// Whether they fit is the server's to say.
func arguments(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 || string(bytes.TrimSpace(raw)) == "null" {
		return json.RawMessage("{}"), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("the arguments must be one JSON object")}
	}
	return json.Marshal(fields)
}

// Run implements tool.Tool.
func (r remote) Run(ctx context.Context, c tool.Call) (tool.Output, error) {
	stated, err := r.Accesses(ctx, c)
	if err != nil {
		return tool.Output{}, err
	}
	if !slices.ContainsFunc(c.Granted, func(a mercury.Access) bool {
		return a.Kind == stated[0].Kind && a.Target == stated[0].Target && a.Detail == stated[0].Detail
	}) {
		return tool.Output{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("the call was not granted")}
	}
	x, err := r.server.open(ctx)
	if err != nil {
		return tool.Output{}, err
	}
	defer r.server.release(x)
	if err := r.unchanged(ctx, x); err != nil {
		return tool.Output{}, err
	}
	out := tool.Output{Taint: []string{"mcp:" + r.server.Name}}
	res, err := r.server.call(ctx, x, r.pinned.Name, json.RawMessage(stated[0].Detail))
	if errors.Is(err, errEnded) {
		return out, fmt.Errorf("the MCP server %s ended during the call, so whether it was done is not known", r.server.Name)
	}
	if err != nil {
		return out, errors.New(x.mask(fmt.Sprintf("the MCP server %s: %s", r.server.Name, short(err.Error()))))
	}
	k := tool.NewCapture(c)
	end := foreign.Begin(k, "the MCP server "+r.server.Name)
	write(k, res, x.mask)
	end()
	out.Text, out.Truncated = k.Finish()
	out.IsError = res.IsError
	return out, nil
}

// unchanged refuses a tool that is not what was approved, and keeps what was
// seen, so that it is not offered again.
func (r remote) unchanged(ctx context.Context, x *session) error {
	i := slices.IndexFunc(x.offers, func(o offer) bool { return o.Name == r.pinned.Name })
	if i >= 0 && x.offers[i].refused == "" && x.offers[i].hash() == r.pinned.Hash {
		return nil
	}
	if err := r.client.note(context.WithoutCancel(ctx), r.server.Name, x.offers); err != nil {
		r.server.opts.Log.Error("keeping that an MCP tool changed", "server", r.server.Name, "err", err)
	}
	what := "describes " + r.pinned.Name + " in other words than those that were approved"
	if i < 0 {
		what = "no longer has " + r.pinned.Name
	}
	return &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("the MCP server %s %s", r.server.Name, what),
		Help: "The owner can look at it and approve it with `mercury mcp approve " + r.server.Name + "`."}
}

// write puts a result into words, the server's own secrets left out.
func write(w io.Writer, res *mcp.CallToolResult, mask func(string) string) {
	wrote := false
	say := func(format string, args ...any) {
		_, _ = io.WriteString(w, mask(fmt.Sprintf(format+"\n", args...))) // a Capture never fails
		wrote = true
	}
	for _, content := range res.Content {
		switch v := content.(type) {
		case *mcp.TextContent:
			say("%s", v.Text)
		case *mcp.ImageContent:
			say("[a picture of type %s, %d bytes]", short(v.MIMEType), len(v.Data))
		case *mcp.AudioContent:
			say("[a sound of type %s, %d bytes]", short(v.MIMEType), len(v.Data))
		case *mcp.ResourceLink:
			say("[%s: %s]", short(v.Name), short(v.URI))
		case *mcp.EmbeddedResource:
			switch {
			case v.Resource == nil:
			case v.Resource.Text != "":
				say("[%s]\n%s", short(v.Resource.URI), v.Resource.Text)
			default:
				say("[%s: a file of type %s, %d bytes]", short(v.Resource.URI), short(v.Resource.MIMEType), len(v.Resource.Blob))
			}
		}
	}
	if !wrote && res.StructuredContent != nil {
		if b, err := json.MarshalIndent(res.StructuredContent, "", "  "); err == nil {
			say("%s", b)
		}
	}
	if !wrote {
		say("(nothing)")
	}
}
