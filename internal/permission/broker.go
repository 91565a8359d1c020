package permission

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// A Broker sees to it that a secret of a vault leaves only towards the host it
// is for. It stands before the network as a transport: a request whose address
// or headers hold a secret bound elsewhere, or to nowhere, is not sent.
type Broker struct {
	vault *Vault

	mu    sync.RWMutex
	bound map[string][]string // value → hosts, as in addresses
}

// NewBroker returns a broker for the secrets of v.
func NewBroker(v *Vault) *Broker { return &Broker{vault: v, bound: map[string][]string{}} }

// Bind lets the secret value, and whatever secret stands in it, go to the host
// of address.
func (b *Broker) Bind(value, address string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return
	}
	values := append(b.vault.values(value), value)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range values {
		b.bound[v] = append(b.bound[v], strings.ToLower(u.Host))
	}
}

// Transport returns next behind the broker.
func (b *Broker) Transport(next http.RoundTripper) http.RoundTripper { return guarded{b, next} }

type guarded struct {
	broker *Broker
	next   http.RoundTripper
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.broker.check(r); err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return g.next.RoundTrip(r)
}

func (b *Broker) check(r *http.Request) error {
	texts := []string{r.URL.String()}
	for name, values := range r.Header {
		texts = append(texts, name)
		texts = append(texts, values...)
	}
	for _, text := range texts {
		for _, value := range b.vault.values(text) {
			if !b.may(value, r.URL.Host) {
				return &mercury.Error{Kind: mercury.Denied,
					Err:  fmt.Errorf("send a request to %s: it holds the secret %s, which is not for that host", r.URL.Host, b.vault.name(value)),
					Help: "Name the host in mercury.yaml beside the key if it is meant to have it."}
			}
		}
	}
	return nil
}

func (b *Broker) may(value, host string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Contains(b.bound[value], strings.ToLower(host))
}
