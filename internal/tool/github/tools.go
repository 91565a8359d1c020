package github

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

// issue is what the tools read of an issue or a pull request.
type issue struct {
	Number  int
	Title   string
	State   string
	Body    string
	HTMLURL string `json:"html_url"`
	User    struct{ Login string }
	Labels  []struct{ Name string }
	Draft   bool
	Base    struct{ Ref string }
	Head    struct{ Ref string }
	PR      *struct{} `json:"pull_request"`
}

func read[T any](a answer) (v T, err error) {
	if a.next != "" {
		return v, fmt.Errorf("it leads elsewhere, to %s", clip(a.next, 200))
	}
	if a.cut {
		return v, fmt.Errorf("the answer is too long")
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		return v, fmt.Errorf("read the answer: %w", err)
	}
	return v, nil
}

// A tool on a repository: what it would touch, and what it does there.
func onRepository[In any](c *client, name, usage string, effect mercury.Effect, where func(In) repository,
	access func(In, repository) []mercury.Access, run func(context.Context, tool.Call, In, repository) (tool.Output, error),
	probe func(context.Context, tool.Call, In, repository) (*tool.Output, bool, error)) tool.Tool {
	d := tool.Definition[In]{Name: name, Usage: usage, Effect: effect,
		Access: func(_ context.Context, _ tool.Call, in In) ([]mercury.Access, error) {
			r, err := c.in(where(in))
			if err != nil {
				return nil, err
			}
			return access(in, r), nil
		},
		Run: func(ctx context.Context, call tool.Call, in In) (tool.Output, error) {
			r, err := c.in(where(in))
			if err != nil {
				return tool.Output{}, err
			}
			if err := granted(call, access(in, r)); err != nil {
				return tool.Output{}, err
			}
			return run(ctx, call, in, r)
		},
		Show: func(_ context.Context, _ tool.Call, in In) string {
			b, err := json.MarshalIndent(in, "", "  ")
			if err != nil {
				return ""
			}
			r, err := c.in(where(in))
			if err != nil {
				return ""
			}
			return fmt.Sprintf("%s at %s on %s\n%s", name, r, c.base.Host, b)
		},
	}
	if probe != nil {
		d.Probe = func(ctx context.Context, call tool.Call, in In) (*tool.Output, bool, error) {
			r, err := c.in(where(in))
			if err != nil {
				return nil, false, err
			}
			return probe(ctx, call, in, r)
		}
	}
	return tool.Define(d)
}

type prInput struct {
	repository
	Title string `json:"title"`
	Head  string `json:"head" jsonschema:"branch with the changes, or user:branch"`
	Base  string `json:"base,omitempty" jsonschema:"branch to change, default main"`
	Body  string `json:"body,omitempty"`
	Draft bool   `json:"draft,omitempty"`
}

func (in prInput) base() string {
	if in.Base == "" {
		return "main"
	}
	return in.Base
}

func (c *client) createPR() tool.Tool {
	return onRepository(c, "create_pr", "Open a pull request on GitHub.", mercury.Once,
		func(in prInput) repository { return in.repository },
		func(in prInput, r repository) []mercury.Access {
			return c.writes(r.String(), "pull request "+in.Head+" → "+in.base())
		},
		func(ctx context.Context, call tool.Call, in prInput, r repository) (tool.Output, error) {
			a, err := c.ask(ctx, http.MethodPost, r.path()+"/pulls", "", map[string]any{
				"title": in.Title, "head": in.Head, "base": in.base(), "body": in.Body, "draft": in.Draft})
			if err != nil {
				return tool.Output{Taint: c.taint(r.String())}, err
			}
			v, err := read[issue](a)
			if err != nil {
				return tool.Output{}, err
			}
			return tool.Output{Text: opened("pull request", v)}, nil
		},
		// GitHub has one open pull request from a branch to another: if it is
		// there, the call was done.
		func(ctx context.Context, _ tool.Call, in prInput, r repository) (*tool.Output, bool, error) {
			head := in.Head
			if !strings.Contains(head, ":") {
				head = r.Owner + ":" + head
			}
			a, err := c.ask(ctx, http.MethodGet, r.path()+"/pulls?"+url.Values{"state": {"open"}, "head": {head}, "base": {in.base()}}.Encode(), "", nil)
			if err != nil {
				return nil, false, err
			}
			list, err := read[[]issue](a)
			if err != nil || len(list) == 0 {
				return nil, err == nil, err
			}
			return &tool.Output{Text: opened("pull request", list[0])}, false, nil
		})
}

func opened(what string, v issue) string {
	return fmt.Sprintf("Opened %s #%d: %s", what, v.Number, clip(v.HTMLURL, 300))
}

type issueInput struct {
	repository
	Title  string   `json:"title"`
	Body   string   `json:"body,omitempty"`
	Labels []string `json:"labels,omitempty"`
}

func (c *client) createIssue() tool.Tool {
	return onRepository(c, "create_issue", "Open an issue on GitHub.", mercury.Once,
		func(in issueInput) repository { return in.repository },
		func(in issueInput, r repository) []mercury.Access {
			return c.writes(r.String(), "issue "+clip(in.Title, 100))
		},
		func(ctx context.Context, call tool.Call, in issueInput, r repository) (tool.Output, error) {
			body := map[string]any{"title": in.Title, "body": in.Body}
			if len(in.Labels) > 0 {
				body["labels"] = in.Labels
			}
			a, err := c.ask(ctx, http.MethodPost, r.path()+"/issues", "", body)
			if err != nil {
				return tool.Output{Taint: c.taint(r.String())}, err
			}
			v, err := read[issue](a)
			if err != nil {
				return tool.Output{}, err
			}
			return tool.Output{Text: opened("issue", v)}, nil
		}, nil)
}

type listInput struct {
	repository
	State  string `json:"state,omitempty" jsonschema:"open, closed or all"`
	Labels string `json:"labels,omitempty" jsonschema:"separated by commas"`
	Count  int    `json:"count,omitempty" jsonschema:"1 to 100, default 20"`
}

func (c *client) listIssues() tool.Tool {
	return onRepository(c, "list_issues", "List issues of a GitHub repository, newest first.", mercury.Read,
		func(in listInput) repository { return in.repository },
		func(_ listInput, r repository) []mercury.Access { return c.reads("issues of " + r.String()) },
		func(ctx context.Context, call tool.Call, in listInput, r repository) (tool.Output, error) {
			count := min(max(in.Count, 0), 100)
			if count == 0 {
				count = 20
			}
			q := url.Values{"per_page": {strconv.Itoa(count)}}
			if in.State != "" {
				q.Set("state", in.State)
			}
			if in.Labels != "" {
				q.Set("labels", in.Labels)
			}
			a, err := c.ask(ctx, http.MethodGet, r.path()+"/issues?"+q.Encode(), "", nil)
			if err != nil {
				return tool.Output{Taint: c.taint(r.String())}, err
			}
			list, err := read[[]issue](a)
			if err != nil {
				return tool.Output{}, err
			}
			var b strings.Builder
			for _, v := range list {
				kind := ""
				if v.PR != nil {
					kind = " (pull request)"
				}
				var labels []string
				for _, l := range v.Labels {
					labels = append(labels, clip(l.Name, 50))
				}
				fmt.Fprintf(&b, "#%d %s%s: %s", v.Number, v.State, kind, clip(v.Title, 200))
				if len(labels) > 0 {
					fmt.Fprintf(&b, " [%s]", strings.Join(labels, ", "))
				}
				fmt.Fprintf(&b, " by %s\n", clip(v.User.Login, 50))
			}
			if len(list) == 0 {
				b.WriteString("There are none.\n")
			}
			return c.said(call, r.String(), b.String()), nil
		}, nil)
}

type reviewInput struct {
	repository
	Number int    `json:"number"`
	Event  string `json:"event,omitempty" jsonschema:"approve, request_changes or comment; empty: only show it"`
	Body   string `json:"body,omitempty" jsonschema:"what the review says"`
}

func (c *client) reviewPR() tool.Tool {
	return onRepository(c, "review_pr", "Show a GitHub pull request with its diff; with an event, post a review of it.", mercury.Once,
		func(in reviewInput) repository { return in.repository },
		func(in reviewInput, r repository) []mercury.Access {
			if in.Event == "" {
				return c.reads(fmt.Sprintf("pull request %s#%d", r, in.Number))
			}
			return c.writes(r.String(), fmt.Sprintf("review of #%d: %s", in.Number, clip(in.Event, 40)))
		},
		func(ctx context.Context, call tool.Call, in reviewInput, r repository) (tool.Output, error) {
			at := fmt.Sprintf("%s/pulls/%d", r.path(), in.Number)
			if in.Event == "" {
				return c.showPR(ctx, call, r, at)
			}
			event := strings.ToUpper(in.Event)
			if event != "APPROVE" && event != "REQUEST_CHANGES" && event != "COMMENT" {
				return tool.Output{}, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q is no event", clip(in.Event, 40)), Help: "Use approve, request_changes or comment."}
			}
			if _, err := c.ask(ctx, http.MethodPost, at+"/reviews", "", map[string]any{"event": event, "body": in.Body}); err != nil {
				return tool.Output{Taint: c.taint(r.String())}, err
			}
			return tool.Output{Text: fmt.Sprintf("Posted the review of %s#%d: %s.", r, in.Number, strings.ToLower(event))}, nil
		}, nil)
}

func (c *client) showPR(ctx context.Context, call tool.Call, r repository, at string) (tool.Output, error) {
	a, err := c.ask(ctx, http.MethodGet, at, "", nil)
	if err != nil {
		return tool.Output{Taint: c.taint(r.String())}, err
	}
	v, err := read[issue](a)
	if err != nil {
		return tool.Output{}, err
	}
	diff, err := c.ask(ctx, http.MethodGet, at, "application/vnd.github.diff", nil)
	if err != nil {
		return tool.Output{Taint: c.taint(r.String())}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s: %s\n%s → %s, by %s\n%s\n\n%s\n\n", v.Number, v.State, v.Title, v.Head.Ref, v.Base.Ref, v.User.Login, v.HTMLURL, v.Body)
	b.Write(diff.body)
	if diff.cut {
		b.WriteString("\n(the diff is cut)\n")
	}
	return c.said(call, r.String(), b.String()), nil
}

type apiInput struct {
	Method string         `json:"method" jsonschema:"GET, POST, PUT, PATCH or DELETE"`
	Path   string         `json:"path" jsonschema:"such as /repos/OWNER/REPO/labels"`
	Body   map[string]any `json:"body,omitempty"`
}

// api is the tool for what the others do not cover.
func (c *client) api() tool.Tool {
	access := func(in apiInput) ([]mercury.Access, error) {
		method := strings.ToUpper(in.Method)
		at, err := below(in.Path)
		if err != nil {
			return nil, err
		}
		switch method {
		case http.MethodGet:
			return c.reads("GET " + at), nil
		case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
			return c.writes(reached(at), method+" "+at), nil
		}
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q is no method", clip(in.Method, 20)), Help: "Use GET, POST, PUT, PATCH or DELETE."}
	}
	return tool.Define(tool.Definition[apiInput]{
		Name: "github_api", Usage: "Call the GitHub REST API where no other tool does.", Effect: mercury.Once,
		Access: func(_ context.Context, _ tool.Call, in apiInput) ([]mercury.Access, error) { return access(in) },
		Show: func(_ context.Context, _ tool.Call, in apiInput) string {
			b, err := json.MarshalIndent(in.Body, "", "  ")
			if err != nil {
				return ""
			}
			return fmt.Sprintf("%s %s on %s\n%s", strings.ToUpper(in.Method), in.Path, c.base.Host, b)
		},
		Run: func(ctx context.Context, call tool.Call, in apiInput) (tool.Output, error) {
			want, err := access(in)
			if err != nil {
				return tool.Output{}, err
			}
			if err := granted(call, want); err != nil {
				return tool.Output{}, err
			}
			var body any
			if in.Body != nil {
				body = in.Body
			}
			a, err := c.ask(ctx, strings.ToUpper(in.Method), in.Path, "", body)
			if err != nil {
				return tool.Output{Taint: c.taint(reached(in.Path))}, err
			}
			text := fmt.Sprintf("%d %s\n", a.status, http.StatusText(a.status))
			if a.next != "" {
				text += "It leads to " + clip(a.next, 500) + ", which was not followed.\n"
			}
			var b bytes.Buffer
			if len(a.body) < answerMax/8 && json.Indent(&b, a.body, "", " ") == nil && b.Len() < answerMax {
				text += b.String()
			} else {
				text += string(a.body)
			}
			if a.cut {
				text += "\n(the answer is cut)"
			}
			return c.said(call, reached(in.Path), text), nil
		},
	})
}

// reached is the repository that a path changes, or its first part.
func reached(at string) string {
	at, _, _ = strings.Cut(at, "?")
	parts := strings.Split(strings.Trim(at, "/"), "/")
	if len(parts) >= 3 && parts[0] == "repos" {
		return parts[1] + "/" + parts[2]
	}
	return parts[0]
}
