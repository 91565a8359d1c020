package memory

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

//go:embed lesson.md
var lessonText string

// What of one line, and of an answer, a lesson shows, in characters.
const (
	lineMax   = 1200
	answerMax = 160
)

// A Lesson is what was said since the last one, ready to be asked about.
type Lesson struct {
	Request llm.Request
	Lines   []mercury.Entry // what the numbers in the request stand for, from 1
}

// NewLesson makes a lesson of a conversation's entries: what persons said and,
// if answers is set, the beginning of what Mercury answered. ok is false where
// nothing was said from which anything could be learned.
func NewLesson(entries []mercury.Entry, answers bool, maxOutput int) (l Lesson, ok bool) {
	var b strings.Builder
	for _, e := range entries {
		if e.Hidden || strings.TrimSpace(e.Text) == "" {
			continue
		}
		who, text := "", strings.Join(strings.Fields(e.Text), " ")
		switch {
		case e.Kind == mercury.UserEntry:
			who, text = "user", cut(text, lineMax)
			if e.Actor.Role != mercury.Owner && e.Actor.Name != "" {
				who = strings.Join(strings.Fields(e.Actor.Name), " ")
			}
			ok = ok || !Trivial(e.Text)
		case e.Kind == mercury.AssistantEntry && answers:
			who, text = "assistant", cut(text, answerMax)
		default:
			continue
		}
		l.Lines = append(l.Lines, e)
		fmt.Fprintf(&b, "%d %s: %s\n", len(l.Lines), who, text)
	}
	l.Request = llm.Request{System: []string{strings.TrimSpace(lessonText)}, MaxTokens: maxOutput, Whole: true,
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: strings.TrimSpace(b.String())}}}}}
	return l, ok
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// acknowledgements are messages that say nothing by themselves. A message that
// only begins with one is not among them.
var acknowledgements = lazy(`(?i)^(ok(ay)?|k|yes|yep|yeah|no|nope|thanks?( you)?( very much)?|thx|hi|hey|hello|bye|good (morning|evening|night)|great|nice|cool|sure|please|go on|continue|stop|` +
	`ja|nein|danke( schön)?|hallo|tschüss|gut|super|weiter|bitte|guten (morgen|abend|tag)|` +
	`好的?|是的?|不|谢谢|你好|再见|嗯|继续|نعم|لا|شكرا|مرحبا|أهلا|حسنا|تمام)$`)

// Trivial reports whether a message is nothing but a greeting or a nod.
func Trivial(text string) bool {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r)
	}), " ")
	return text == "" || acknowledgements().MatchString(text)
}

// learned is one memory as a model writes it.
type learned struct {
	Type       string  `json:"type"`
	Summary    string  `json:"summary"`
	Detail     string  `json:"detail"`
	Confidence float64 `json:"confidence"`
	Importance float64 `json:"importance"`
	Durability float64 `json:"durability"`
	Direct     bool    `json:"direct"`
	Lines      []int   `json:"lines"`
}

// Read takes candidates out of a model's answer. What is no JSON but a list of
// lines is taken as weakly inferred preferences. Each candidate keeps the
// entries it came from and their outside sources; one that tells Mercury what
// to do and derives from outside text is left out.
func (l Lesson) Read(answer string, c Candidate) []Candidate {
	var out []Candidate
	for _, v := range parse(answer) {
		if len(out) == Standard.PerLesson {
			break
		}
		n := c
		n.Kind, n.Summary, n.Detail = strings.ToLower(strings.TrimSpace(v.Type)), v.Summary, v.Detail
		n.Confidence, n.Importance, n.Durability, n.Learned = v.Confidence, v.Importance, v.Durability, Inferred
		if v.Direct {
			n.Learned = Direct
		}
		if n.Learned == Direct && (v.Confidence < Standard.ConfidenceMin || weight(v.Summary) < Standard.SummaryMin) {
			n.Learned = Inferred // what a model calls direct is held to the same bar
		}
		n.Sources, n.Taint = l.sources(v.Lines)
		if len(n.Taint) > 0 && Instructs(n.Summary+" "+n.Detail) {
			continue
		}
		out = append(out, n)
	}
	return out
}

// sources are the entries behind line numbers; without any, everything said by
// persons is.
func (l Lesson) sources(lines []int) (out []store.MemorySource, taint []string) {
	take := func(e mercury.Entry) {
		out = append(out, store.MemorySource{EntryID: e.ID, RunID: e.RunID, At: e.At})
		taint = union(taint, e.Taint)
	}
	for _, n := range lines {
		if n >= 1 && n <= len(l.Lines) {
			take(l.Lines[n-1])
		}
	}
	if len(out) > 0 {
		return out, taint
	}
	for _, e := range l.Lines {
		taint = union(taint, e.Taint)
		if e.Kind == mercury.UserEntry {
			out = append(out, store.MemorySource{EntryID: e.ID, RunID: e.RunID, At: e.At})
		}
	}
	return out, taint
}

var bullet = lazy(`^\s*(?:[-*•]|\d+[.)])\s+(.+)$`)

// parse reads what a model wrote: a JSON array, alone, in a fence or in an
// object, else bullets.
func parse(answer string) []learned {
	if list, ok := array(answer); ok {
		return list
	}
	var out []learned
	for line := range strings.Lines(answer) {
		if m := bullet().FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			out = append(out, learned{Type: Preference, Summary: m[1], Confidence: 0.75, Importance: 0.7, Durability: 0.7})
		}
	}
	return out
}

// array finds the outermost JSON array. Of one that was cut off, the whole
// objects count.
func array(answer string) ([]learned, bool) {
	from := strings.IndexByte(answer, '[')
	if from < 0 || strings.Contains(answer[:from], "\n- ") {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(answer[from:]))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, false
	}
	var out []learned
	for d.More() {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			break
		}
		var v learned
		if json.Unmarshal(raw, &v) == nil && v.Summary != "" {
			out = append(out, v)
		}
	}
	return out, len(out) > 0 || strings.HasPrefix(strings.TrimSpace(answer[from+1:]), "]")
}

// LearnKey is the key of a conversation's lessons, of which one is queued at
// a time.
func LearnKey(conversation string) string { return "learn/" + conversation }

// Due is the input of a run of kind "learn": what the talks since the last
// lesson have used.
type Due struct {
	Conversation string   `json:"conversation"`
	Scope        string   `json:"scope"`
	Turns        int      `json:"turns"`
	Used         []string `json:"used,omitempty"` // memories that stood in requests since the last lesson
	LastRun      string   `json:"last_run"`
	Last         []string `json:"last,omitempty"` // those of the last answer
}

// Count adds a turn and the memories that stood in its requests.
func (d *Due) Count(run string, used []string) {
	d.Turns++
	d.LastRun, d.Last = run, used
	d.Used = union(d.Used, used)
}

func learnedKey(conversation string) string { return MetaPrefix + "learned/" + conversation }

// Since returns the seq after which a conversation is to be learned from.
func Since(tx store.Tx, conversation string) (int64, error) {
	v, err := tx.MetaValue(learnedKey(conversation))
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read what was learned from: %w", err)
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, nil // a mark nobody can read: from the beginning
	}
	return n, nil
}

// Learned notes that a conversation was learned from up to seq.
func Learned(tx store.Tx, conversation string, seq int64) error {
	return tx.SetMeta(learnedKey(conversation), strconv.FormatInt(seq, 10))
}
