//go:build unix

package field

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/testenv"
)

// raw sends bytes to the house and reads one answer.
func (h *house) raw(bytes string) (*http.Response, string, error) {
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, "", err
	}
	// The house may answer and hang up before all is written.
	go io.WriteString(c, bytes)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil // it hung up on the rest of what we write
	}
	return res, string(body), err
}

func TestMalformedRequestsAreProblemsAndHarmNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	token, err := os.ReadFile(h.home.TokenFile())
	must(t, err)
	head := "Host: localhost\r\nAuthorization: Bearer " + strings.TrimSpace(string(token)) + "\r\n"
	post := func(body string) string {
		return "POST /api/conversations/talk/messages HTTP/1.1\r\n" + head + "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\n" + head + "\r\n" }
	for name, tt := range map[string]struct {
		bytes  string
		status int
	}{
		"no HTTP at all":             {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello hello hello\r\n\r\n", 400},
		"a request line without end": {"GET\r\n\r\n", 400},
		"another protocol":           {"GET /api/status SPDY/9\r\n\r\n", 400},
		"no host":                    {"GET /api/status HTTP/1.1\r\n\r\n", 400},
		"two hosts":                  {"GET /api/status HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		"another name":               {"GET /api/status HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},
		"a header without a colon":   {"GET /api/status HTTP/1.1\r\nHost localhost\r\n\r\n", 400},
		"a header of a megabyte":     {"GET /api/status HTTP/1.1\r\n" + head + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 431},
		"a length that is no number": {"POST /api/conversations/talk/messages HTTP/1.1\r\n" + head + "Content-Length: many\r\n\r\n", 400},
		"a negative length":          {"POST /api/conversations/talk/messages HTTP/1.1\r\n" + head + "Content-Length: -1\r\n\r\n", 400},
		"two ways of length":         {"POST /api/conversations/talk/messages HTTP/1.1\r\n" + head + "Content-Length: 2\r\nTransfer-Encoding: banana\r\n\r\n{}", 501},
		"no body":                    {post(""), 400},
		"no JSON":                    {post("{"), 400},
		"a list":                     {post("[]"), 422},
		"a number for a text":        {post(`{"text":5}`), 422},
		"an unknown field":           {post(`{"text":"hello","txt":"x"}`), 422},
		"an unknown mode":            {post(`{"text":"hello","mode":"shout"}`), 422},
		"an empty text":              {post(`{"text":""}`), 422},
		"JSON without end":           {post(strings.Repeat(`{"text":`, 10_000)), 400},
		"a long request id":          {post(`{"text":"hello","request_id":"` + strings.Repeat("x", 201) + `"}`), 422},
		"a text over the limit":      {post(`{"text":"` + strings.Repeat("x", 1<<20+1) + `"}`), 422},
		"a body over the limit":      {post(`{"text":"` + strings.Repeat("x", 4<<20) + `"}`), 413},
		"a path of nobody":           {get("/api/nothing"), 404},
		"a method of nobody":         {"BREW /api/status HTTP/1.1\r\n" + head + "\r\n", 405},
		"a limit that is no number":  {get("/api/runs?limit=many"), 422},
		"a limit out of range":       {get("/api/runs?limit=100000"), 422},
		"a state that is none":       {get("/api/runs?state=happy"), 422},
		"a cursor that is none":      {get("/api/runs?after=%00%ff"), 422},
		"an id that is none":         {get("/api/runs/%00"), 404},
		"a conversation of nobody":   {get("/api/conversations/telegram%2F5"), 404},
		"a long conversation":        {strings.Replace(post(`{"text":"hello"}`), "/talk/", "/"+strings.Repeat("x", 201)+"/", 1), 422},
		"no token":                   {"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n", 401},
		"a wrong token":              {"GET /api/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n", 401},
		"a page of another site":     {"GET /api/status HTTP/1.1\r\n" + head + "Origin: http://evil.example\r\n\r\n", 403},
	} {
		t.Run(name, func(t *testing.T) {
			res, body, err := h.raw(tt.bytes)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != tt.status {
				t.Errorf("status %d, want %d: %s", res.StatusCode, tt.status, body)
			}
			var p struct {
				Title, Detail string
				Status        int
			}
			if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("content type %q: %.200s", ct, body)
			} else if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != res.StatusCode || p.Title == "" || p.Detail == "" {
				t.Errorf("problem %+v, %v: %.300s", p, err, body)
			}
		})
	}
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("%d requests of the model came of it", n)
	}
	if page, err := h.client.Conversations(brief(t), nil); err != nil || len(page.Items) != 0 {
		t.Errorf("conversations: %+v, %v", page, err)
	}
	h.showedLast("room", "hello", "ok")
}

func TestAMessageOverTheLimitIsRefusedWithTheLimit(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	long := strings.Repeat("x", 1<<20+1)
	_, err := h.client.Send(brief(t), "talk", text(long))
	if e := refusal(t, err); e.Status != 422 || !strings.Contains(e.Detail, "the limit is 1048576") || !strings.Contains(e.Detail, "Put the text into a file") {
		t.Errorf("refused with %d: %.300s", e.Status, e.Detail)
	}
	h.bridge.Push("room", long)
	if said := h.showed("room", 1)[0]; !strings.Contains(said, "not taken") || !strings.Contains(said, "the limit is 1048576") {
		t.Errorf("said %q", said)
	}
	h.showedLast("room", "short", "ok")
	if n := len(h.model.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestAFullInboxIsRefusedAndTakesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "hold", Fault: llmtest.Hang}}}).start()
	h.say("talk", "hold", "follow-up")
	h.asked(1)
	var refused *client.Error
	taken := 1
	for i := 0; refused == nil && i < 200; i++ {
		_, err := h.client.Send(brief(t), "talk", client.Message{Text: fmt.Sprint("text ", i), Mode: "follow-up"})
		if err == nil {
			taken++
			continue
		}
		refused = refusal(t, err)
	}
	if refused == nil || refused.Status != 429 || taken != 101 || !strings.Contains(refused.Detail, "Send it again later") {
		t.Fatalf("after %d messages: %+v", taken, refused)
	}
	c, err := h.client.Conversation(brief(t), "talk")
	if err != nil || c.Waiting != 100 {
		t.Errorf("%d wait, %v", c.Waiting, err)
	}
	if other := h.say("elsewhere", "hello", "follow-up"); other.RunID == nil {
		t.Error("another conversation is held up")
	}
}

// TestAFullDiskTakesNothingItCannotKeep fills the disk under a running house:
// what is refused leaves nothing, what is acknowledged is there, and it goes on
// by itself when there is room.
func TestAFullDiskTakesNothingItCannotKeep(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	small := h.home.Dir()
	mount(t, small)
	h.configure("openai", h.model.URL+"/v1")
	h.live()
	h.showedLast("room", "hello", "So: hello")

	ballast := filepath.Join(small, "ballast")
	fill := func() {
		t.Helper()
		f, err := os.Create(ballast)
		must(t, err)
		defer f.Close()
		for _, size := range []int{1 << 16, 1 << 10, 1} {
			for err = error(nil); err == nil; {
				_, err = f.Write(make([]byte, size))
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill the disk: %v", err)
		}
	}
	fill()
	var taken []string
	var refused *client.Error
	for i := 0; i < 300; i++ {
		words := fmt.Sprintf("text %d %s", i, strings.Repeat("padding ", 500))
		_, err := h.client.Send(brief(t), "talk", client.Message{Text: words, RequestID: fmt.Sprint("r", i), Mode: "write"})
		if err == nil {
			taken = append(taken, words)
			continue
		}
		refused = refusal(t, err)
		break
	}
	if refused == nil || refused.Status != 507 && refused.Status != 503 || !strings.Contains(refused.Detail, "full") {
		t.Fatalf("after %d messages: %+v", len(taken), refused)
	}
	if st, err := h.client.Status(brief(t)); err != nil {
		t.Errorf("status while the disk is full: %v", err)
	} else if st.State == "" {
		t.Errorf("status: %+v", st)
	}
	must(t, os.Remove(ballast))
	h.showedLast("room", "room again", "So: room again")
	if got := h.texts("local/talk", mercury.NoteEntry); !slices.Equal(got, taken) {
		t.Errorf("%d notes are kept, %d were acknowledged", len(got), len(taken))
	}
	h.life.noPanic(t)

	// A start on a full disk is degraded, not an end.
	h.life.kill()
	fill()
	h.live()
	h.until("the start to say something", func() bool {
		_, err := h.client.Status(brief(t))
		return err == nil
	})
	must(t, os.Remove(ballast))
	h.until("the house to work again", func() bool {
		_, err := h.client.Send(brief(t), "talk", client.Message{Text: "at last", RequestID: "last", Mode: "write"})
		return err == nil
	})
	h.life.noPanic(t)
}

// mount puts a file system of a few megabytes in place of a folder.
func mount(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=12m,mode=700", "tmpfs", dir).CombinedOutput(); err != nil {
		testenv.Missing(t, "the right to mount a small file system", "run the tests as root, outside a container that forbids mounting ("+strings.TrimSpace(string(out))+")")
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}

func TestAHomeThatCannotBeWrittenSaysHowToMendIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	nobody := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // root may write anywhere
		nobody.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		must(t, os.Chmod(filepath.Dir(h.home.Dir()), 0o755))
		must(t, os.Chmod(filepath.Dir(filepath.Dir(h.home.Dir())), 0o755))
		must(t, os.Chmod(h.home.Config(), 0o644))
		must(t, os.Chmod(filepath.Dir(program), 0o755))
		must(t, os.Chown(h.workspace, 65534, 65534))
	}
	must(t, os.Chmod(h.home.Dir(), 0o555))
	t.Cleanup(func() { _ = os.Chmod(h.home.Dir(), 0o700) })
	for _, args := range [][]string{{"serve"}, {"ask", "hello"}} {
		p := h.spawnAs(nobody, nil, args...)
		code := h.code(p)
		if code != 3 && code != 1 || !strings.Contains(p.out.String(), h.home.Dir()) || !strings.Contains(p.out.String(), "permission denied") {
			t.Errorf("mercury %v left with %d: %s", args, code, p.out)
		}
		p.noPanic(t)
	}
	if n := len(h.model.Requests()); n != 0 {
		t.Errorf("%d requests though nothing could be kept", n)
	}
}

// A pipe stands before a database and can be cut.
type pipe struct {
	t    *testing.T
	addr string
	to   string // Unix socket, or host and port

	mu    sync.Mutex
	l     net.Listener
	conns []net.Conn
}

// newPipe returns the URL of the database behind a pipe that is shut.
func newPipe(t *testing.T, database string) (*pipe, string) {
	t.Helper()
	u, err := url.Parse(database)
	must(t, err)
	p := &pipe{t: t, to: u.Host}
	q := u.Query()
	if dir := q.Get("host"); dir != "" {
		p.to = filepath.Join(dir, ".s.PGSQL.5432")
		q.Del("host")
	}
	p.addr = testenv.Address(t)
	u.Host, u.RawQuery = p.addr, q.Encode()
	t.Cleanup(p.cut)
	return p, u.String()
}

func (p *pipe) join() {
	p.t.Helper()
	l, err := testenv.ListenAt(p.addr)
	must(p.t, err)
	p.mu.Lock()
	p.l = l
	p.mu.Unlock()
	network := "tcp"
	if strings.HasPrefix(p.to, "/") {
		network = "unix"
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(network, p.to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(out, in); out.Close() }()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
		}
	}()
}

func (p *pipe) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.l != nil {
		p.l.Close()
		p.l = nil
	}
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func TestADatabaseOutOfReachIsSaidAndComesBackByItself(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t)
	p, address := newPipe(t, database)
	h := newHouse(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "slow", Reply: strings.Repeat("so ", 100), TokenMS: 30}}, Default: "So: {{user}}"})
	h.add(fmt.Sprintf("database: { url: %q }\n", address))
	h.live()

	// At the start: degraded, said, nothing taken.
	st, err := h.client.Status(brief(t))
	if err != nil || st.State != "degraded" || len(st.Problems) != 1 || strings.Contains(st.Problems[0], "mercury@") && strings.Contains(st.Problems[0], "password") {
		t.Fatalf("status: %+v, %v", st.About, err)
	}
	if e := refusalOf(h.client.Send(brief(t), "talk", text("hello"))); e == nil || e.Status != 503 {
		t.Errorf("a message: %v", e)
	}
	p.join()
	h.until("the house to find its database", func() bool {
		_, err := h.client.Send(brief(t), "talk", client.Message{Text: "first", RequestID: "first"})
		return err == nil
	})
	h.quiet("local/talk", 1)

	// In the middle of a run.
	h.say("talk", "slow", "follow-up")
	h.asked(2)
	p.cut()
	h.until("a message to be refused", func() bool {
		e := refusalOf(h.client.Send(brief(t), "talk", client.Message{Text: "lost?", RequestID: "lost"}))
		return e != nil && (e.Status == 503 || e.Status == 500)
	})
	if st, err := h.client.Status(brief(t)); err != nil || st.State != "degraded" || len(st.Problems) == 0 {
		t.Errorf("status: %+v, %v", st.About, err)
	}
	p.join()
	h.until("a message to be taken again", func() bool {
		_, err := h.client.Send(brief(t), "talk", client.Message{Text: "again", RequestID: "again"})
		return err == nil
	})
	h.until("all that was taken to be answered", func() bool {
		users := h.texts("local/talk", mercury.UserEntry)
		return slices.Contains(users, "again") && !slices.ContainsFunc(h.runs("local/talk"), func(r runOf) bool { return mercury.RunState(r.State).Live() })
	})
	for _, r := range h.runs("local/talk") {
		if r.State != "done" {
			t.Errorf("run is %s: %s", r.State, r.Error)
		}
	}
	count := map[string]int{}
	for _, text := range h.texts("local/talk", mercury.UserEntry) {
		count[text]++
	}
	if count["first"] != 1 || count["slow"] != 1 || count["again"] != 1 || count["lost?"] > 1 {
		t.Errorf("in the conversation: %v", count)
	}
	h.life.noPanic(t)
	h.sound()
}

func TestAPieceOfTheDatabaseThatIsDamagedUnderARunningHouseIsSaid(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{}).start()
	h.say("talk", strings.Repeat("words ", 20_000), "follow-up")
	h.quiet("local/talk", 1)
	h.stop()
	h.kept(func(tx store.Tx) error { _, err := tx.Conversation("local/talk"); return err })
	path := h.home.Database()
	info, err := os.Stat(path)
	must(t, err)
	for at := int64(16 << 10); at < info.Size(); at += 2048 {
		scribble(t, path, at, strings.Repeat("\xff", 600))
	}
	h.live()
	said := false
	for range 20 {
		_, err := h.client.Send(brief(t), "talk", text("hello"))
		if e := (*client.Error)(nil); errors.As(err, &e) && strings.Contains(e.Detail, "amaged") {
			said = true
			break
		}
	}
	st, err := h.client.Status(brief(t))
	said = said || err == nil && strings.Contains(strings.Join(st.Problems, " "), "amaged")
	if !said {
		t.Errorf("nothing says that the database is damaged: %+v, %v", st.About, err)
	}
	if h.life.over() {
		t.Errorf("the house is gone: %s", h.life.out)
	}
	h.life.noPanic(t)
}
