package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// What stands in a request where a conversation has a hole. A model reads
// these, so they say what it may conclude and nothing more.
const (
	textUnknown  = "Interrupted: it is not known whether this ran. Check before you do it again."
	textNotRun   = "Did not run: the turn was interrupted before it."
	textStub     = "(output left out to make room; call the tool again if you need it)"
	textShort    = "(the rest is left out to make room)"
	textNoOutput = "(no output)"
	textGoOn     = "(go on)"
	textCutHead  = "(Earlier messages are left out.)"
	textEmpty    = "(empty message)"

	summaryMark = "[summary of what came before] "
)

// stubFrom is the length in bytes from which an old output is worth a stub.
const stubFrom = 300

// Build makes the request that asks p's model to go on with a conversation.
// It reads nothing but the entries, which are in order of Seq, so the same
// entries give the same bytes:
//
//   - what a reset or a summary hides, and what is Hidden, is left out;
//   - each result stands directly after its call, in call order, wherever it
//     was journaled; a call without a result gets one that says so;
//   - calls cut in the stream, and their results, are left out;
//   - thinking goes back, byte for byte, only to the model that wrote it;
//   - texts of people and notes that follow each other are one message;
//   - as many of the newest images as the wires allow are sent, the others
//     are named.
//
// The request passes llm.Validate on every wire, and no text of a person
// between head and end is missing from it.
func Build(entries []mercury.Entry, p Profile, tail string) llm.Request {
	return build(entries, p, tail, nil, nil)
}

// build is Build for a run: allowed names the tools of its mandate (nil is
// all), origins the models besides p's own whose thinking is kept, which are
// those that answered in this run. A driver sends each only its own.
func build(entries []mercury.Entry, p Profile, tail string, allowed, origins []string) llm.Request {
	req := llm.Request{
		Model:     modelID(p.ModelName),
		System:    p.System,
		Tail:      enclosed(tail),
		MaxTokens: p.MaxOutput,
	}
	if p.Tools != nil {
		for _, s := range p.Tools.Specs(allowed, loaded(entries)...) {
			req.Tools = append(req.Tools, llm.Tool{Name: s.Name, Description: s.Description, Schema: s.Schema})
		}
	}
	if len(entries) > 0 {
		req.Key = cacheKey(entries[0].ConversationID)
	}
	b := builder{
		origins: append([]string{p.ModelName}, origins...),
		calls:   map[callKey]mercury.Entry{},
		results: map[callKey]mercury.Entry{},
		ids:     map[string]bool{},
		images:  pickImages(entries, p.Image),
	}
	shown, stubs := visible(entries)
	b.stubs = stubs
	for _, e := range shown {
		k := callKey{e.RunID, e.CallID}
		switch e.Kind {
		case mercury.ToolCallEntry:
			b.calls[k] = e
		case mercury.ToolResultEntry:
			if _, ok := b.results[k]; !ok {
				b.results[k] = e
			}
		}
	}
	for _, e := range shown {
		b.entry(e)
	}
	req.Messages = b.finish()
	return req
}

// loaded names the tools beyond the core that a conversation has found or used
// since it was begun, in that order. It follows from the entries alone, so that
// a restart changes nothing; a summary that hides them leaves them at hand.
func loaded(entries []mercury.Entry) []string {
	var names []string
	for _, e := range entries {
		switch e.Kind {
		case mercury.ResetEntry:
			names = nil
		case mercury.ToolCallEntry:
			names = append(names, data[callData](e).Tool)
		case mercury.ToolResultEntry:
			names = append(names, data[resultData](e).Loads...)
		}
	}
	return names
}

// modelID is the half of "provider/model" that the provider knows.
func modelID(name string) string {
	if _, id, ok := strings.Cut(name, "/"); ok {
		return id
	}
	return name
}

// cacheKey names a conversation to a provider without saying whose it is.
func cacheKey(conversationID string) string {
	sum := sha256.Sum256([]byte("prompt cache " + conversationID))
	return hex.EncodeToString(sum[:8])
}

// visible returns what of the entries a model sees, and the marks that shorten
// tool outputs. A reset hides all before it. A summary stands first,
// for everything up to its Through (without one: all before it) except the
// entries it keeps.
func visible(entries []mercury.Entry) (shown []mercury.Entry, stubs []noteData) {
	for i, e := range slices.Backward(entries) {
		if e.Kind == mercury.ResetEntry {
			entries = entries[i+1:]
			break
		}
	}
	var summary *mercury.Entry
	var cut noteData
	for i, e := range slices.Backward(entries) {
		if e.Kind == mercury.SummaryEntry && !e.Hidden {
			summary, cut = &entries[i], data[noteData](e)
			if cut.Through == 0 || cut.Through > e.Seq {
				cut.Through = e.Seq
			}
			break
		}
	}
	if summary != nil {
		shown = append(shown, *summary)
	}
	for _, e := range entries {
		switch {
		case e.Hidden || e.Kind == mercury.SummaryEntry:
		case summary != nil && e.Seq <= cut.Through && !slices.Contains(cut.Keep, e.Seq):
		case e.Kind == mercury.NoteEntry && data[noteData](e).Kind == noteStubs:
			stubs = append(stubs, data[noteData](e))
			shown = append(shown, e)
		default:
			shown = append(shown, e)
		}
	}
	return cleaned(shown), stubs
}

type callKey struct{ run, call string }

// builder lays messages end to end.
type builder struct {
	origins  []string
	calls    map[callKey]mercury.Entry
	results  map[callKey]mercury.Entry
	ids      map[string]bool // call ids in the request so far
	images   map[string][]llm.Part
	stubs    []noteData
	messages []llm.Message
}

func (b *builder) entry(e mercury.Entry) {
	switch e.Kind {
	case mercury.UserEntry:
		b.say(userText(e)+unseen(e, len(b.images[e.ID])), b.images[e.ID]...)
	case mercury.NoteEntry:
		b.say("[note] " + strings.TrimSpace(userText(e)))
	case mercury.SummaryEntry:
		b.say(summaryMark + e.Text)
	case mercury.AssistantEntry:
		b.assistant(e)
	}
}

// say adds to the user's side, joining a message that is open there.
func (b *builder) say(text string, more ...llm.Part) {
	parts := append([]llm.Part{{Kind: llm.Text, Text: text}}, more...)
	if n := len(b.messages); n > 0 && b.messages[n-1].Role == llm.User {
		b.messages[n-1].Parts = append(b.messages[n-1].Parts, parts...)
		return
	}
	b.messages = append(b.messages, llm.Message{Role: llm.User, Parts: parts})
}

// assistant adds an answer and, directly behind it, the results of its calls.
func (b *builder) assistant(e mercury.Entry) {
	d := data[assistantData](e)
	if d.Aborted {
		return
	}
	if len(d.Parts) == 0 {
		d.Parts = []llm.Part{{Kind: llm.Text, Text: e.Text}}
	}
	var parts, results []llm.Part
	said := 0 // length of parts up to the last one that is not thinking
	for _, p := range d.Parts {
		if p.Origin != "" && !slices.Contains(b.origins, p.Origin) {
			if p.Kind == llm.Reasoning {
				continue
			}
			p.Signature, p.Raw, p.Origin = "", "", ""
		}
		switch p.Kind {
		case llm.Reasoning:
			parts = append(parts, p)
			continue
		case llm.Text:
			if strings.TrimSpace(p.Text) == "" {
				continue
			}
			parts = append(parts, p)
		case llm.ToolCall:
			call, result, ok := b.call(e, p)
			if !ok {
				continue
			}
			parts, results = append(parts, call), append(results, result)
		default:
			continue
		}
		said = len(parts)
	}
	// Thinking that nothing follows is of an answer that was cut: no wire
	// takes it back.
	parts = parts[:said]
	if len(parts) == 0 {
		return
	}
	switch n := len(b.messages); {
	case n == 0:
		b.say(textCutHead)
	case b.messages[n-1].Role == llm.Assistant:
		b.say(textGoOn)
	}
	b.messages = append(b.messages, llm.Message{Role: llm.Assistant, Parts: parts})
	if len(results) > 0 {
		b.messages = append(b.messages, llm.Message{Role: llm.ToolRole, Parts: results})
	}
}

// call completes a reference to a call and finds its result.
func (b *builder) call(e mercury.Entry, ref llm.Part) (call, result llm.Part, ok bool) {
	entry, found := b.calls[callKey{e.RunID, ref.ID}]
	if !found || ref.Cut || ref.ID == "" {
		return call, result, false
	}
	d := data[callData](entry)
	call = llm.Part{Kind: llm.ToolCall, ID: b.unique(ref.ID), Name: llm.CleanName(d.Tool), Args: object(d.Args),
		Signature: ref.Signature, Raw: ref.Raw, Origin: ref.Origin}
	result = llm.Part{Kind: llm.ToolResult, ID: call.ID, Name: call.Name, Text: textUnknown, IsError: true}
	if r, ok := b.results[callKey{e.RunID, ref.ID}]; ok {
		rd := data[resultData](r)
		result.Text, result.IsError = rd.Result, rd.IsError
		if result.Text == "" {
			result.Text = r.Text
		}
		if strings.TrimSpace(result.Text) == "" {
			result.Text = textNoOutput
		}
		result.Text = b.shorten(r.Seq, result.Text)
	}
	return call, result, true
}

// shorten applies the marks that cover an output.
func (b *builder) shorten(seq int64, text string) string {
	for _, s := range b.stubs {
		switch {
		case seq > s.Through || len(text) <= max(s.Max, stubFrom):
		case s.Max == 0:
			return textStub
		default:
			text = strings.ToValidUTF8(text[:s.Max], "") + "\n" + textShort
		}
	}
	return text
}

// unique keeps ids apart should two runs ever have made the same.
func (b *builder) unique(id string) string {
	for n, base := 2, id; b.ids[id]; n++ {
		id = fmt.Sprintf("%s_%d", base, n)
	}
	b.ids[id] = true
	return id
}

// object makes sure of what every wire demands of arguments.
func object(args json.RawMessage) json.RawMessage {
	if !llm.IsObject(args) {
		return json.RawMessage("{}")
	}
	return args
}

func (b *builder) finish() []llm.Message {
	if n := len(b.messages); n == 0 || b.messages[n-1].Role == llm.Assistant {
		b.say(textGoOn)
	}
	return b.messages
}

// userText is a person's message as the model reads it: who speaks, unless it
// is the owner, the words themselves, and what came with them.
func userText(e mercury.Entry) string {
	text := e.Text
	if e.Actor.Role != mercury.Owner && e.Actor.Name != "" {
		text = "[from " + oneLine(e.Actor.Name) + "] " + text
	}
	for _, f := range data[userData](e).Files {
		if text != "" {
			text += "\n"
		}
		text += fmt.Sprintf("[file %s: %s, %d bytes]", oneLine(f.Name), f.Path, f.Size)
	}
	if strings.TrimSpace(text) == "" {
		return textEmpty
	}
	return text
}

// oneLine keeps a foreign name from looking like a line of its own.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("[", "(", "]", ")").Replace(s)), " ")
}

// maxImagesBytes bounds all images of a request together: half of what a
// request may hold once they are base64.
const maxImagesBytes = llm.MaxRequest / 8 * 3

// isImage reports whether a file is a picture of a kind that the wires take, by
// its media type or, where nobody gave one, by its name.
func isImage(f mercury.File) bool {
	switch f.Type {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	case "":
		switch strings.ToLower(filepath.Ext(f.Path)) {
		case ".png", ".jpg", ".jpeg", ".gif", ".webp":
			return true
		}
	}
	return false
}

// unseen says how many pictures of a message are only named, so that a model
// does not speak of what it cannot see.
func unseen(e mercury.Entry, shown int) string {
	n := 0
	for _, f := range data[userData](e).Files {
		if isImage(f) {
			n++
		}
	}
	switch {
	case n <= shown:
		return ""
	case shown == 0:
		return "\n(You are not shown the pictures here; say so if they matter.)"
	}
	return fmt.Sprintf("\n(You are shown %d of the %d pictures here.)", shown, n)
}

// pickImages reads the newest images the wires allow, by entry. What cannot be
// read or is too large is only named in the text.
func pickImages(entries []mercury.Entry, read func(mercury.File) (b []byte, media string, err error)) map[string][]llm.Part {
	if read == nil {
		return nil
	}
	picked := map[string][]llm.Part{}
	count, size := 0, 0
	shown, _ := visible(entries)
	for _, e := range slices.Backward(shown) {
		if e.Kind != mercury.UserEntry {
			continue
		}
		for _, f := range slices.Backward(data[userData](e).Files) {
			if !isImage(f) || count == llm.MaxImages {
				continue
			}
			b, media, err := read(f)
			if err != nil || len(b) == 0 || len(b) > llm.MaxImageBytes || size+len(b) > maxImagesBytes {
				continue
			}
			count, size = count+1, size+len(b)
			picked[e.ID] = slices.Insert(picked[e.ID], 0, llm.Part{Kind: llm.Image, Media: media, Data: b})
		}
	}
	return picked
}

// taintOf is the union of the outside sources in what a request of these
// entries contains. A person of another role than the one who acts, unless an
// owner or admin, is a source too.
func taintOf(entries []mercury.Entry, actor mercury.Actor) []string {
	shown, _ := visible(entries)
	var union []string
	add := func(source string) {
		if !slices.Contains(union, source) {
			union = append(union, source)
		}
	}
	for _, e := range shown {
		for _, s := range e.Taint {
			add(s)
		}
		if e.Kind == mercury.UserEntry && e.Actor.Below(actor) {
			add(e.Actor.Source())
		}
	}
	slices.Sort(union)
	return union
}
