package relay_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mercury-agent/mercury/internal/channel"
	"github.com/mercury-agent/mercury/internal/channel/channeltest"
	"github.com/mercury-agent/mercury/internal/channel/relay"
	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/testenv"
)

func TestRelayKeepsTheContractOfChannels(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Platform {
		bridge := &relaytest.Server{Token: "right"}
		addr := testenv.Address(t)
		l, err := testenv.ListenAt(addr)
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewUnstartedServer(bridge)
		srv.Listener.Close()
		srv.Listener = l
		srv.Start()
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		return channeltest.Platform{
			Open: func(t *testing.T, place channel.Place) channel.Channel {
				transport := &http.Transport{}
				t.Cleanup(transport.CloseIdleConnections)
				c, err := relay.New("http://"+addr, place, relay.Options{Token: "right", HTTP: transport})
				if err != nil {
					t.Fatal(err)
				}
				return c
			},
			Push:      bridge.Push,
			Redeliver: bridge.Redeliver,
			Shown: func() (texts []string) {
				for _, s := range bridge.Sent() {
					if s.Shown {
						texts = append(texts, s.Text)
					}
				}
				return texts
			},
			Next: func(f channeltest.Fault) {
				bridge.Fail(map[channeltest.Fault]relaytest.Fault{
					channeltest.ShownThenDropped: relaytest.Drop,
					channeltest.Refused:          relaytest.Refuse,
					channeltest.Flooded:          relaytest.Flood,
				}[f])
			},
			Down: func() func() {
				srv.Listener.Close()
				srv.CloseClientConnections()
				return func() {
					l, err := testenv.ListenAt(addr)
					if err != nil {
						t.Fatal(err)
					}
					again := &http.Server{Handler: bridge}
					t.Cleanup(func() { again.Close() })
					go again.Serve(l)
				}
			},
		}
	})
}

func TestARefusedTokenAsksForAPerson(t *testing.T) {
	srv := httptest.NewServer(&relaytest.Server{Token: "right"})
	defer srv.Close()
	c, err := relay.New(srv.URL, &channeltest.Place{}, relay.Options{Token: "wrong"})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Listen(t.Context(), nil)
	if mercury.KindOf(err) != mercury.Setup || mercury.HelpOf(err) == "" {
		t.Errorf("Listen = %v, want one of kind setup with advice", err)
	}
}

func TestAnAddressThatIsNoURLIsRefusedAtOnce(t *testing.T) {
	for _, base := range []string{"", "ftp://x", "bridge:80", "http://"} {
		if _, err := relay.New(base, nil, relay.Options{}); mercury.KindOf(err) != mercury.Setup {
			t.Errorf("New(%q) = %v", base, err)
		}
	}
}

// stolen is the place of a channel that another process has taken over.
type stolen struct{}

func (stolen) Load(context.Context) (string, error) { return "", nil }
func (stolen) Save(context.Context, string) error {
	return fmt.Errorf("save place: %w", store.ErrStale)
}

func TestAChannelThatAnotherProcessHasIsListenedToNoMore(t *testing.T) {
	bridge := &relaytest.Server{}
	srv := httptest.NewServer(bridge)
	defer srv.Close()
	c, err := relay.New(srv.URL, stolen{}, relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bridge.Push("ann", "hello")
	err = c.Listen(t.Context(), func(context.Context, mercury.Message) error { return nil })
	if !errors.Is(err, store.ErrStale) {
		t.Errorf("Listen ended with %v, want %v", err, store.ErrStale)
	}
}
