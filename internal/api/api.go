// Package api is Mercury over HTTP: every noun and verb of the running house,
// for the terminal, the cockpit, scripts and other programs. Each route reads
// through the engine's view or calls the same method the other faces call; a
// message goes through intake like any other.
//
// Only GET /api/health is open. Everything else wants the bearer token of the
// home. Errors are problem details (RFC 9457), the description is OpenAPI 3.1
// at /api/openapi.json.
package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/skill"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool/mcp"
)

// Options tune a Server. A zero field means its default.
type Options struct {
	Version string
	// Hosts are further names under which the server may be asked, besides
	// loopback addresses and localhost.
	Hosts []string
	// About describes the house for the status route; default empty.
	About func(ctx context.Context) About
	// Undo takes back what a run did, or only looks. Nil: nothing can be.
	Undo func(ctx context.Context, tx store.Tx, run, conversation string, apply bool, by mercury.Actor) (mercury.Undone, error)
	// Jobs is where commands run in the background; nil: nowhere.
	Jobs intake.Jobs
	// Stop ends the house in order, soon after it returns; nil: it cannot be
	// asked to.
	Stop func()
	// Backups makes copies of the home; nil: no routes for them.
	Backups Backups
	// MCP are the MCP servers; nil: no routes for them.
	MCP *mcp.Client
	// Budget is what a day and a month may cost, and Anatomy takes a request
	// apart; nil: no routes for them.
	Budget  intake.Budget
	Anatomy intake.Anatomy
	// Skills are what can be learned; nil: no routes for them.
	Skills *skill.Library
	// Schedules start work by themselves; nil: no routes for them.
	Schedules *schedule.Schedules
	// ReadPatience is how long the reader of an event stream may take nothing
	// of what is written to it before the stream ends; default 30 s.
	ReadPatience time.Duration
	// BodyPatience is how long the body of a request may take to arrive;
	// default 10 s.
	BodyPatience time.Duration
	Log          *slog.Logger // default discards
}

// About is what only the house as a whole knows.
type About struct {
	State    string    `json:"state" doc:"setting up, idle, working, delegating, asleep, degraded or draining"`
	Name     string    `json:"name,omitempty"`
	Home     string    `json:"home,omitempty"`
	Model    string    `json:"model,omitempty"`
	Listen   string    `json:"listen,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Started  time.Time `json:"started_at,omitzero"`
	Problems []string  `json:"problems,omitempty" doc:"why it is degraded, and what to do"`
	Restart  []string  `json:"restart,omitempty" doc:"changed keys of mercury.yaml that wait for the next start"`

	Fence        string `json:"fence,omitempty" doc:"what holds commands: bwrap+landlock, bwrap, landlock, sandbox-exec or none; empty until it is known"`
	Veil         string `json:"veil,omitempty" doc:"what keeps commands that a person allowed from Mercury's own folder: namespace, landlock, sandbox-exec or none; empty until it is known"`
	FenceMissing string `json:"fence_missing,omitempty" doc:"why the fence is not stronger"`
	FenceCure    string `json:"fence_cure,omitempty" doc:"what would make it stronger on this system"`
}

// Server answers HTTP.
type Server struct {
	engine *engine.Engine
	intake *intake.Intake
	token  [sha256.Size]byte
	opts   Options
	mux    *http.ServeMux
	api    huma.API
}

// New returns a server for the house around e and in. token is the bearer
// token that each request must carry.
func New(e *engine.Engine, in *intake.Intake, token string, o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ReadPatience == 0 {
		o.ReadPatience = readPatience
	}
	if o.BodyPatience == 0 {
		o.BodyPatience = 10 * time.Second
	}
	if o.About == nil {
		o.About = func(context.Context) About { return About{} }
	}
	s := &Server{engine: e, intake: in, token: sha256.Sum256([]byte(token)), opts: o, mux: http.NewServeMux()}
	config := huma.DefaultConfig("Mercury", o.Version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.CreateHooks = nil // no $schema links in the answers
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	config.Transformers = append(config.Transformers, sayWhere)
	config.Security = []map[string][]string{{"token": {}}}
	s.api = humago.New(s.mux, config)
	s.conversations()
	s.history()
	s.runs()
	s.deliveries()
	s.questions()
	s.status()
	s.rights()
	s.jobs()
	s.memory()
	s.usage()
	s.mcp()
	s.backups()
	s.schedules()
	s.skills()
	s.mux.HandleFunc("GET /api/events", s.events)
	s.mux.HandleFunc("GET /api/openapi.json", s.openapi)
	s.mux.HandleFunc("/", s.nothing)
	return s
}

// nothing answers for what is not there: another method of a known path gets
// 405 and the methods it has.
func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" && pattern != "" {
			allow = append(allow, method)
		}
	}
	if len(allow) > 0 {
		w.Header().Set("Allow", strings.Join(allow, ", "))
		problem(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s, not %s", r.URL.Path, strings.Join(allow, " and "), r.Method))
		return
	}
	problem(w, http.StatusNotFound, fmt.Sprintf("there is no %s %s; /api/openapi.json lists what there is", r.Method, r.URL.Path))
}

// Handle adds routes under the same walls: token, host and origin checks.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// OpenAPI returns the description of the API as JSON.
func (s *Server) OpenAPI() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) }

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	b, err := s.OpenAPI()
	if err != nil {
		problem(w, http.StatusInternalServerError, "the description could not be written")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// ServeHTTP lets a request through its walls, in order: the host it was sent
// to (against DNS rebinding), the page it came from, the token, its shape.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.opts.Log.Error("a request panicked", "path", r.URL.Path, "panic", fmt.Sprint(v))
			problem(w, http.StatusInternalServerError, "something broke inside; the log has the details, nothing was half done")
		}
	}()
	if r.ContentLength != 0 { // also for who is refused: the server reads on to the body's end
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opts.BodyPatience)) // a test's recorder has none
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if !s.hostAllowed(r.Host) {
		problem(w, http.StatusForbidden, "this name is not one Mercury answers to; use 127.0.0.1 or localhost")
		return
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		problem(w, http.StatusForbidden, "a page of another site may not ask Mercury")
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && !s.originAllowed(origin, r.Host) {
		problem(w, http.StatusForbidden, "a page of another site may not ask Mercury")
		return
	}
	if r.URL.Path != "/api/health" && !s.authorised(r) {
		h.Set("WWW-Authenticate", `Bearer realm="mercury"`)
		problem(w, http.StatusUnauthorized, "the request needs the bearer token from the file token in Mercury's home")
		return
	}
	if status, detail := misshapen(r); status != 0 {
		problem(w, status, detail)
		return
	}
	s.mux.ServeHTTP(w, r)
	if r.Method == http.MethodPost {
		crash.Reach("api.answered")
	}
}

func (s *Server) authorised(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	return ok && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}

func (s *Server) hostAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" {
		return true
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	for _, h := range s.opts.Hosts {
		if strings.EqualFold(h, host) || strings.EqualFold(h, hostport) {
			return true
		}
	}
	return false
}

func (s *Server) originAllowed(origin, host string) bool {
	_, rest, ok := strings.Cut(origin, "://")
	return ok && rest == host
}

// problem writes an error as problem details (RFC 9457).
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail})
}

// failure turns an error of the house into a problem with its status. What a
// person cannot use stays in the log.
func (s *Server) failure(what string, err error) error {
	status := http.StatusInternalServerError
	switch kind := mercury.KindOf(err); {
	case errors.Is(err, store.ErrNotFound) || kind == mercury.NotFound:
		status = http.StatusNotFound
	case kind == mercury.Invalid:
		status = http.StatusUnprocessableEntity
	case kind == mercury.Conflict:
		status = http.StatusConflict
	case kind == mercury.Denied:
		status = http.StatusForbidden
	case kind == mercury.Full:
		status = http.StatusTooManyRequests
		if errors.Is(err, store.ErrDiskFull) {
			status = http.StatusInsufficientStorage
		}
	case kind == mercury.Transient, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrUnavailable):
		status = http.StatusServiceUnavailable
	}
	detail := what + ": " + err.Error()
	if status == http.StatusInternalServerError {
		s.opts.Log.Error("request failed", "what", what, "err", err)
		detail = what + ": something broke inside; the log has the details"
	}
	switch help := mercury.HelpOf(err); {
	case help == "":
	case status == http.StatusConflict: // the help says what stands in the way; the chain says it in our words
		detail = what + ": " + help
	default:
		detail += ". " + help
	}
	return huma.NewError(status, detail)
}

// list is one page of things. Next goes into the after parameter of the
// request for the page that follows; it is empty on the last one.
type list[T any] struct {
	Body struct {
		Items []T    `json:"items"`
		Next  string `json:"next"`
	}
}

func page[T any](items []T, next string) *list[T] {
	if items == nil {
		items = []T{}
	}
	l := &list[T]{}
	l.Body.Items, l.Body.Next = items, next
	return l
}

// Paging is how a list is asked for. It is exported for the library that reads
// its tags.
type Paging struct {
	After string `query:"after" doc:"the next value of the page before"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (p Paging) page() store.Page { return store.Page{After: p.After, Limit: p.Limit} }

func mapSlice[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}
