package daemon

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/tool/github"
)

// secrets are what must never be shown: the vault that takes them out of
// texts, and the broker that lets each go to its own host alone.
type secrets struct {
	*permission.Vault
	broker *permission.Broker
}

// newSecrets fills the vault with every secret of the configuration and the
// home, the API's token, and what the process's environment calls a secret.
func newSecrets(c *config.Config, token string) secrets {
	s := secrets{Vault: &permission.Vault{}}
	all := map[string]string{"the API's token": token}
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); secretive(name) {
			all["env "+name] = value
		}
	}
	s.Fill(all)
	s.broker = permission.NewBroker(s.Vault)
	s.learn(c)
	return s
}

// learn fills the vault with the secrets of a configuration and lets each go to
// its own address. What was known before stays known: it may be in texts.
func (s secrets) learn(c *config.Config) {
	s.Fill(c.Secrets())
	for _, p := range c.Providers {
		s.bind(p.APIKey, p.BaseURL)
		for _, h := range p.Headers {
			s.bind(h, p.BaseURL)
		}
	}
	if r := c.Channels.Relay; r != nil {
		s.bind(r.Token, r.URL)
	}
	s.bind(c.WebSearch.Key, searchService(c).Address())
	s.bind(c.GitHub.Token, github.Address(c.GitHub.APIURL))
	for _, server := range c.MCP.Servers {
		for _, h := range server.Headers {
			s.bind(h, server.URL)
		}
	}
	if p, err := c.HTTP.Proxy.Value(); err == nil {
		s.broker.Bind(p, p)
	}
}

// bind lets a secret of the configuration go to one address. One whose
// variable is missing has no value to let go.
func (s secrets) bind(secret config.Secret, address string) {
	if value, err := secret.Value(); err == nil && value != "" {
		s.broker.Bind(value, address)
	}
}

// secretive reports whether a variable of this name usually holds a secret.
func secretive(name string) bool {
	if strings.HasPrefix(name, "MERCURY_") {
		return false
	}
	name = strings.ToUpper(name)
	for _, end := range []string{"_KEY", "APIKEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "_PAT", "_CREDENTIALS", "_DSN", "DATABASE_URL"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// screened is an answer of the API on its way out: the last place where a
// secret can be taken out of it, wherever it came from.
type screened struct {
	http.ResponseWriter
	hide func(string) string
	text bool // what is written can hold a secret in clear
	told bool
}

func (s *screened) WriteHeader(status int) {
	if !s.told {
		s.told = true
		kind, _, _ := strings.Cut(s.Header().Get("Content-Type"), ";")
		s.text = kind == "" || strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "javascript")
		if s.text { // it may become shorter
			s.Header().Del("Content-Length")
		}
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *screened) Write(p []byte) (int, error) {
	if !s.told {
		s.WriteHeader(http.StatusOK)
	}
	if !s.text {
		return s.ResponseWriter.Write(p)
	}
	text := string(p)
	if hidden := s.hide(text); hidden != text {
		if _, err := s.ResponseWriter.Write([]byte(hidden)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (s *screened) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// hideIn takes the vault's secrets out of an error's text. The error beneath
// stays for errors.Is and errors.As.
func (s secrets) hideIn(err error) error {
	if err == nil {
		return nil
	}
	if text := err.Error(); s.Hide(text) != text {
		return hidden{text: s.Hide(text), err: err}
	}
	return err
}

type hidden struct {
	text string
	err  error
}

func (h hidden) Error() string                 { return h.text }
func (h hidden) Unwrap() error                 { return h.err }
func (h hidden) Format(f fmt.State, verb rune) { fmt.Fprint(f, h.text) }
