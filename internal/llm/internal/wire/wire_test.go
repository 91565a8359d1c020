package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
)

// all reads the events of a stream as name|data, comments as ":".
func all(t *testing.T, src io.Reader) []string {
	t.Helper()
	r := NewReader(src)
	var list []string
	for {
		ev, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		s := ev.Name + "|" + string(ev.Data)
		if ev.Comment {
			s = ":"
		}
		if ev.Tail {
			s += "|tail"
		}
		list = append(list, s)
	}
}

func TestStreamsOfEveryShapeAreRead(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"plain", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"a mark in front", "\ufeffdata: a\n\n", []string{"|a"}},
		{"a mark elsewhere", "data: \ufeffa\n\n", []string{"|\ufeffa"}},
		{"several lines", "data: a\ndata:b\ndata\n\n", []string{"|a\nb\n"}},
		{"no space", "data:a\n\n", []string{"|a"}},
		{"two spaces", "data:  a\n\n", []string{"| a"}},
		{"a name", "event: ping\ndata: {}\n\n", []string{"ping|{}"}},
		{"a name without data", "event: ping\n\ndata: a\n\n", []string{"|a"}},
		{"comments", ": alive\n\n:\ndata: a\n: inside\n\n", []string{":", ":", "|a"}},
		{"other fields", "id: 1\nretry: 5\nfoo\ndata: a\n\n", []string{"|a"}},
		{"no blank line at the end", "data: a\n\ndata: b", []string{"|a", "|b|tail"}},
		{"a line of megabytes", "data: " + long + "\n\ndata: b\n\n", []string{"|" + long, "|b"}},
		{"nothing", "", nil},
	} {
		for name, src := range map[string]io.Reader{"at once": strings.NewReader(tt.in), "a byte at a time": iotest.OneByteReader(strings.NewReader(tt.in)), "half": iotest.HalfReader(strings.NewReader(tt.in))} {
			if got := all(t, src); strings.Join(got, "¶") != strings.Join(tt.want, "¶") {
				t.Errorf("%s, %s: %.100q, want %.100q", tt.name, name, got, tt.want)
			}
		}
	}
}

func TestAReadErrorComesOutAsItIs(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)))
	if ev, err := r.Next(); err != nil || string(ev.Data) != "a" {
		t.Fatalf("%q %v", ev.Data, err)
	}
	for range 2 {
		if _, err := r.Next(); err != broken {
			t.Fatalf("%v", err)
		}
	}
}

// FuzzReader checks that how a stream is cut into reads changes nothing.
// endless is a provider whose stream does not stop.
type endless struct{ event []byte }

func (e endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(&forever{event: e.event})}, nil
}

type forever struct{ event, rest []byte }

func (f *forever) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		f.rest = f.event
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func TestAStreamWithoutAnEndIsBrokenOffAtItsLimit(t *testing.T) {
	call := &Call{Transport: endless{[]byte("data: " + strings.Repeat("x", 32<<10) + "\n\n")}, URL: "http://model.test/", Header: http.Header{}}
	body, err := call.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	events, taken := NewReader(body), 0
	for {
		ev, err := events.Next()
		if err != nil {
			if !errors.Is(err, ErrTooLarge) || llm.ClassOf(err) != llm.Malformed {
				t.Errorf("%v", err)
			}
			break
		}
		if taken += len(ev.Data); taken > maxWholeBody {
			t.Fatalf("%d bytes were taken", taken)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", ":c\r\n\r\nevent: x\rdata: y\r\r", "\ufeffdata:\n\n\n", "data: a", "\r\n\r\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, bytewise := all(t, bytes.NewReader(in)), all(t, iotest.OneByteReader(bytes.NewReader(in)))
		if strings.Join(whole, "¶") != strings.Join(bytewise, "¶") {
			t.Errorf("%q read whole is %q, by bytes %q", in, whole, bytewise)
		}
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\"\\\n\u2028<é\xff漢")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(AppendString(nil, s), &back); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if want := string([]rune(s)); back != want {
			t.Errorf("%q came back as %q", s, back)
		}
	})
}

// FuzzArgs checks that whatever a model writes, the arguments are an object
// that reads the same before and after it was stored.
func FuzzArgs(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a": "<&>\u003c\\u003c"}`, "{\"a\n", `"{\"a\":1}"`, "[1]", "null", "{\"\xff\":1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, bad := Args(s)
		if !llm.IsObject(args) {
			t.Fatalf("%q became %q", s, args)
		}
		if bad != "" && string(args) != "{}" {
			t.Fatalf("%q is flagged and kept: %q", s, args)
		}
		stored, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if again := AppendArgs(nil, stored); string(again) != string(AppendArgs(nil, args)) {
			t.Errorf("%q is %q before and %q after storing", s, args, again)
		}
		var x, y any
		if bad == "" && json.Unmarshal(bytes.ToValidUTF8([]byte(s), []byte("\ufffd")), &x) == nil && json.Unmarshal(args, &y) == nil {
			bx, _ := json.Marshal(x)
			by, _ := json.Marshal(y)
			if _, object := x.(map[string]any); object && string(bx) != string(by) {
				t.Errorf("%q changed its meaning: %s, %s", s, bx, by)
			}
		}
	})
}

func TestFailuresAreClassedByCodeThenWordsThenStatus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   llm.Class
	}{
		{"OpenAI key", 401, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, llm.Auth},
		{"OpenAI quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, llm.Quota},
		{"OpenAI model", 404, `{"error":{"message":"The model 'gpt-9' does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, llm.UnknownModel},
		{"OpenAI overflow", 400, `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, llm.ContextLength},
		{"Azure filter", 400, `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, llm.ContentFiltered},
		{"Azure deployment", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, llm.UnknownModel},
		{"Anthropic credit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, llm.Quota},
		{"Anthropic overload", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.Unavailable},
		{"Anthropic signature", 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}", llm.ForeignReasoning},
		{"Anthropic size", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, llm.ContextLength},
		{"DeepSeek balance", 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, llm.Quota},
		{"Gemini key", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, llm.Auth},
		{"Gemini rate", 429, `[{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x","retryDelay":"36s"}]}}]`, llm.RateLimit},
		{"OpenRouter moderation", 403, `{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"]}}}`, llm.ContentFiltered},
		{"OpenRouter credits", 402, `{"error":{"code":402,"message":"This request requires more credits"}}`, llm.Quota},
		{"Mistral validation", 422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"]}]},"type":"invalid_request_error","code":null}`, llm.BadRequest},
		{"Ollama model", 404, `{"error":{"message":"model \"llama9\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, llm.UnknownModel},
		{"xAI key", 400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***yz."}`, llm.Auth},
		{"Z.ai balance", 429, `{"error":{"code":"1113","message":"Insufficient balance or no resource package."}}`, llm.Quota},
		{"LiteLLM budget", 400, `{"error":{"message":"Budget has been exceeded!","type":"budget_exceeded","param":null,"code":"400"}}`, llm.Quota},
		{"a gateway's page", 502, `<html><head><title>502 Bad Gateway</title></head></html>`, llm.Unavailable},
		{"nothing", 503, ``, llm.Unavailable},
		{"a wrong path", 404, `404 page not found`, llm.BadRequest},
		{"a plain 403", 403, `{"error":"forbidden"}`, llm.Auth},
		{"odd types", 500, `{"error":{"message":["a"],"code":{"x":1},"type":7,"details":"x","metadata":"y"}}`, llm.Unavailable},
	} {
		e := (&Call{}).Refused(tt.status, nil, []byte(tt.body))
		if e.Class != tt.want || e.Message == "" || strings.Contains(e.Message, "<") {
			t.Errorf("%s: %s %q, want %s", tt.name, e.Class, e.Message, tt.want)
		}
	}
}

func TestTheWaitAProviderAsksForIsRead(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, tt := range []struct {
		name   string
		header http.Header
		body   string
		lo, hi time.Duration
	}{
		{"seconds", http.Header{"Retry-After": {"7"}}, ``, 7 * time.Second, 7 * time.Second},
		{"fractions", http.Header{"Retry-After": {"0.5"}}, ``, 500 * time.Millisecond, 500 * time.Millisecond},
		{"milliseconds first", http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"250"}}, ``, 250 * time.Millisecond, 250 * time.Millisecond},
		{"a date", http.Header{"Retry-After": {in(time.Minute)}}, ``, 58 * time.Second, time.Minute},
		{"a date gone by", http.Header{"Retry-After": {in(-time.Minute)}}, ``, 0, 0},
		{"nonsense", http.Header{"Retry-After": {"soon"}}, ``, 0, 0},
		{"Google's", nil, `[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"x","details":[{"retryDelay":"36s"}]}}]`, 36 * time.Second, 36 * time.Second},
	} {
		if got := (&Call{}).Refused(429, tt.header, []byte(tt.body)).RetryAfter; got < tt.lo || got > tt.hi {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestTheWindowIsReadOutOfAnOverflow(t *testing.T) {
	for body, want := range map[string]int{
		`{"error":{"message":"This model's maximum context length is 8192 tokens."}}`:              8192,
		`{"error":{"message":"prompt is too long: 212389 tokens > 200000 maximum"}}`:               200000,
		`{"error":{"message":"the request exceeds the available context size (4096 tokens)"}}`:     4096,
		`{"error":{"message":"This endpoint's maximum context length is 128000 tokens. However"}}`: 128000,
		`{"error":{"message":"Prompt exceeds max length"}}`:                                        0,
	} {
		if e := (&Call{}).Refused(400, nil, []byte(body)); e.Class != llm.ContextLength || e.Limit != want {
			t.Errorf("%s: %s, %d", body, e.Class, e.Limit)
		}
	}
}

func TestSecretsAreBlankedAndWordsCapped(t *testing.T) {
	c := &Call{Secret: "hunter2hunter2"}
	e := c.Refused(401, nil, []byte(`{"error":{"message":"bad key hunter2hunter2, or sk-proj-abcdefgh1234, or Bearer abc.def-ghi123 `+strings.Repeat("é", 5000)+`"}}`))
	text := e.Error() + e.Raw
	for _, secret := range []string{"hunter2", "abcdefgh1234", "abc.def"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %.200q", secret, text)
		}
	}
	if len(e.Message) > maxMessage+4 || len(e.Raw) > maxRaw+4 {
		t.Errorf("%d and %d bytes", len(e.Message), len(e.Raw))
	}
}
