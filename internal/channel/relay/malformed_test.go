package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/channel/relay"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// kept is a place in memory.
type kept struct {
	mu     sync.Mutex
	cursor string
}

func (k *kept) Load(context.Context) (string, error) { return "", nil }

func (k *kept) Save(_ context.Context, cursor string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cursor = cursor
	return nil
}

// hear listens to a bridge until a message with the text "last" comes, and
// returns all texts.
func hear(t *testing.T, bridge http.HandlerFunc) []string {
	t.Helper()
	srv := httptest.NewServer(bridge)
	defer srv.Close()
	c, err := relay.New(srv.URL, &kept{}, relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var texts []string
	err = c.Listen(ctx, func(_ context.Context, m mercury.Message) error {
		texts = append(texts, m.Text)
		if m.Text == "last" {
			stop()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

const lastUpdate = `{"id":"z","conversation":"room","sender":{"id":"ann"},"text":"last"}`

func TestAnUpdateThatCannotBeReadHoldsUpNothingBehindIt(t *testing.T) {
	for name, bad := range map[string]string{
		"a number for an id":     `{"id":7,"conversation":"room","text":"bad"}`,
		"a number for a text":    `{"id":"a","conversation":"room","text":7}`,
		"a word for the sender":  `{"id":"a","conversation":"room","sender":"ann","text":"bad"}`,
		"a word for direct":      `{"id":"a","conversation":"room","direct":"yes","text":"bad"}`,
		"a number for the time":  `{"id":"a","conversation":"room","at":12,"text":"bad"}`,
		"no conversation":        `{"id":"a","text":"bad"}`,
		"no id":                  `{"conversation":"room","text":"bad"}`,
		"null":                   `null`,
		"a list for an update":   `["a"]`,
		"a word for an update":   `"a"`,
		"an object for the text": `{"id":"a","conversation":"room","text":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := hear(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `{"other":[1,{}],"updates":[%s,%s]}`, bad, lastUpdate)
			})
			if len(got) != 1 {
				t.Fatalf("heard %q", got)
			}
		})
	}
}

func TestAMessageWithATimeThatIsNoneIsHeard(t *testing.T) {
	got := hear(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"updates":[{"id":"a","conversation":"room","at":"yesterday","text":"first"},%s]}`, lastUpdate)
	})
	if len(got) != 2 || got[0] != "first" {
		t.Fatalf("heard %q", got)
	}
}

func TestMoreUpdatesThanOneAnswerMayHoldAreAllHeardOnce(t *testing.T) {
	const count, size = 40, 1 << 20 // 40 MB against the limit of 16
	got := hear(t, func(w http.ResponseWriter, r *http.Request) {
		from := 0
		if after := r.URL.Query().Get("after"); after != "" {
			fmt.Sscan(after, &from)
			from++
		}
		var list []string
		for i := from; i < count; i++ {
			b, err := json.Marshal(map[string]any{"id": fmt.Sprint(i), "conversation": "room", "text": strings.Repeat("x", size)})
			if err != nil {
				panic(err)
			}
			list = append(list, string(b))
		}
		fmt.Fprintf(w, `{"updates":[%s]}`, strings.Join(append(list, lastUpdate), ","))
	})
	if len(got) != count+1 {
		t.Fatalf("heard %d messages, want %d", len(got), count+1)
	}
}

func TestABridgeThatOffersNothingUsableIsNotAskedWithoutAPause(t *testing.T) {
	var polls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		polls.Add(1)
		fmt.Fprint(w, `{"updates":[{"conversation":"room","text":"no id"}]}`)
	}))
	defer srv.Close()
	c, err := relay.New(srv.URL, &kept{}, relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if err := c.Listen(ctx, func(context.Context, mercury.Message) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := polls.Load(); n > 2 {
		t.Fatalf("asked %d times in half a second", n)
	}
}
