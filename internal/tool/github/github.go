// Package github works with issues and pull requests on GitHub, or on a GitHub
// Enterprise server.
//
// One host is asked and no other: absolute addresses are refused, and a
// redirect to another host is not followed, so the token goes nowhere else. It
// is fetched for one header of one request, and taken out of whatever comes
// back. What is read is marked as somebody else's words. Whether a call may
// happen is decided elsewhere.
package github

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/foreign"
)

// Limits of one request.
const (
	answerMax    = 2 << 20
	redirectsMax = 3
	wholeTime    = 20 * time.Second
)

// Options tune the tools. A zero field means its default.
type Options struct {
	Address string // of the REST interface; default https://api.github.com
	// Token hands out the token for one header. It is required.
	Token func() (string, error)
	Owner string // meant when a call names none
	Repo  string // meant when a call names none
	Agent string // what the tools call themselves; default "Mercury"

	HTTP http.RoundTripper // default http.DefaultTransport
}

// DefaultAddress is GitHub's own REST interface.
const DefaultAddress = "https://api.github.com"

// Address is the address that the tools name as what they ask, for a
// configured one that may be empty.
func Address(configured string) string {
	return strings.TrimSuffix(cmp.Or(configured, DefaultAddress), "/")
}

// Tools returns the tools. An address that is none is a mistake of ours and
// panics.
func Tools(o Options) []tool.Tool {
	c := newClient(o)
	return []tool.Tool{c.createPR(), c.reviewPR(), c.listIssues(), c.createIssue(), c.api()}
}

type client struct {
	opts Options
	base *url.URL
	http *http.Client
}

func newClient(o Options) *client {
	o.Address = Address(o.Address)
	o.Agent = cmp.Or(o.Agent, "Mercury")
	if o.HTTP == nil {
		o.HTTP = http.DefaultTransport
	}
	base, err := url.Parse(o.Address)
	if err != nil || base.Host == "" {
		panic("github: the address " + o.Address + " is none")
	}
	c := &client{opts: o, base: base}
	c.http = &http.Client{Transport: o.HTTP, Timeout: wholeTime,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Host != base.Host || r.URL.Scheme != base.Scheme || len(via) > redirectsMax {
				return http.ErrUseLastResponse // the answer then says where it leads
			}
			return nil
		}}
	return c
}

// reads and writes are the accesses of a call: reading asks a configured
// service; anything else reaches people, at a repository or the host.
func (c *client) reads(what string) []mercury.Access {
	return []mercury.Access{{Kind: mercury.FetchURL, Target: c.opts.Address, Detail: what}}
}

func (c *client) writes(where, what string) []mercury.Access {
	return []mercury.Access{{Kind: mercury.SendTo, Target: "github/" + where, Detail: what}}
}

// granted reports whether the gate let exactly these accesses through.
func granted(c tool.Call, want []mercury.Access) error {
	for _, w := range want {
		if !slices.ContainsFunc(c.Granted, func(a mercury.Access) bool { return a.Kind == w.Kind && a.Target == w.Target && a.Detail == w.Detail }) {
			return &mercury.Error{Kind: mercury.Denied, Err: errors.New("the call was not granted")}
		}
	}
	return nil
}

// repository is the part of a call that says where.
type repository struct {
	Owner string `json:"owner,omitempty"`
	Repo  string `json:"repo,omitempty"`
}

// in returns the repository that a call means, the configured one where it
// names none.
func (c *client) in(r repository) (repository, error) {
	r.Owner, r.Repo = cmp.Or(r.Owner, c.opts.Owner), cmp.Or(r.Repo, c.opts.Repo)
	if owner, repo, ok := strings.Cut(r.Repo, "/"); ok {
		r.Owner, r.Repo = owner, repo
	}
	for name, v := range map[string]string{"owner": r.Owner, "repo": r.Repo} {
		if v == "" {
			return r, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("name the %s", name)}
		}
		if v == "." || v == ".." || strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			return r, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q is no %s", v, name)}
		}
	}
	return r, nil
}

func (r repository) String() string { return r.Owner + "/" + r.Repo }
func (r repository) path() string   { return "/repos/" + r.Owner + "/" + r.Repo }

// answer is what came back.
type answer struct {
	status int
	body   []byte
	cut    bool   // the body is only the beginning
	next   string // a redirect that was not followed
}

// ask sends one request. The path is below the base; body may be nil.
func (c *client) ask(ctx context.Context, method, at, accept string, body any) (answer, error) {
	var send io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{}, fmt.Errorf("write the request: %w", err)
		}
		send = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.opts.Address+at, send)
	if err != nil {
		return answer{}, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("the path cannot be read")}
	}
	if req.URL.Host != c.base.Host || req.URL.Scheme != c.base.Scheme {
		return answer{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("only " + c.base.Host + " is asked")}
	}
	token, err := c.token()
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", cmp.Or(accept, "application/vnd.github+json"))
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", c.opts.Agent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		return answer{}, &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("%s cannot be reached", c.base.Host)}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, answerMax+1))
	if err != nil {
		return answer{}, &mercury.Error{Kind: mercury.Transient, Err: fmt.Errorf("%s ended in the middle of its answer", c.base.Host)}
	}
	if len(a.body) > answerMax {
		a.body, a.cut = a.body[:answerMax], true
	}
	a.body = bytes.ReplaceAll(a.body, []byte(token), []byte("[secret]"))
	if a.status >= 300 && a.status < 400 {
		a.next = strings.ReplaceAll(resp.Header.Get("Location"), token, "[secret]")
	}
	return a, c.refused(resp, a)
}

func (c *client) token() (string, error) {
	token, err := c.opts.Token()
	if err != nil {
		return "", err
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &mercury.Error{Kind: mercury.Setup, Err: errors.New("there is no usable GitHub token"),
			Help: "The owner must set github.token in mercury.yaml or GITHUB_TOKEN in .env."}
	}
	return token, nil
}

// refused says what an answer that is no success means, in GitHub's words.
func (c *client) refused(resp *http.Response, a answer) error {
	if a.status < 400 {
		return nil
	}
	var v struct {
		Message string
		Errors  []json.RawMessage
	}
	text := ""
	if json.Unmarshal(a.body, &v) == nil && v.Message != "" {
		text = ": " + v.Message
		for _, e := range v.Errors {
			text += " " + string(e)
		}
	}
	err := fmt.Errorf("%s answers %d%s", c.base.Host, a.status, clip(text, 600))
	switch {
	case a.status == http.StatusUnauthorized:
		return &mercury.Error{Kind: mercury.Setup, Err: err, Help: "The owner must set a valid github.token."}
	case a.status == http.StatusTooManyRequests || a.status == http.StatusForbidden && resp.Header.Get("X-RateLimit-Remaining") == "0":
		after := time.Minute
		if s, e := strconv.Atoi(resp.Header.Get("Retry-After")); e == nil && s > 0 && s < 3600 {
			after = time.Duration(s) * time.Second
		}
		return &mercury.Error{Kind: mercury.Transient, After: after, Err: err, Help: "Wait before asking again."}
	case a.status == http.StatusForbidden:
		return &mercury.Error{Kind: mercury.Denied, Err: err, Help: "The token may not do that."}
	case a.status == http.StatusNotFound:
		return &mercury.Error{Kind: mercury.NotFound, Err: err, Help: "It does not exist, or the token may not see it."}
	case a.status >= 500:
		return &mercury.Error{Kind: mercury.Transient, Err: err}
	}
	return &mercury.Error{Kind: mercury.Invalid, Err: err}
}

// said is an output that holds what people wrote on GitHub.
func (c *client) said(call tool.Call, where, text string) tool.Output {
	k := tool.NewCapture(call)
	end := foreign.Begin(k, "GitHub, "+where)
	_, _ = io.WriteString(k, text) // a Capture never fails
	end()
	out := tool.Output{Taint: c.taint(where)}
	out.Text, out.Truncated = k.Finish()
	return out
}

func (c *client) taint(where string) []string { return []string{"github:" + where} }

// clip returns at most n bytes of s, on one line.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(tool.Clean(s)), " ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// below accepts a path below the base, such as /repos/o/r/issues?state=open.
func below(p string) (string, error) {
	bad := func(why string) (string, error) {
		return "", &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("the path %s", why), Help: "Write it like /repos/OWNER/REPO/issues."}
	}
	if !strings.HasPrefix(p, "/") || strings.HasPrefix(p, "//") {
		return bad("must begin with one slash and name no host")
	}
	if strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == '#' }) {
		return bad("holds a blank, a backslash or a fragment")
	}
	u, err := url.Parse(p)
	if err != nil || u.Host != "" || u.Scheme != "" {
		return bad("cannot be read")
	}
	if plain := strings.TrimSuffix(u.Path, "/"); plain != "" && path.Clean(plain) != plain {
		return bad("holds a part that leads elsewhere")
	}
	return p, nil
}
