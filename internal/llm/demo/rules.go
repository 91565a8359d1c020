package demo

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// answer is what the model says, and the one tool it calls then.
type answer struct {
	text string
	tool string
	args obj
	id   string
	slow bool
}

const plainWords = "I am a demonstration model: a few fixed rules, not an AI. "

const helpWords = `Try one of these:
- what is in this folder?
- what does notes.txt say?
- fix the typo in notes.txt (I ask before I change anything)
- change "A" to "B" in FILE
- run date
- remember that the bread is in the oven
- count slowly to 12 (kill me in the middle, I go on)`

// A rule answers what a person says, or passes.
type rule struct {
	says string // regular expression, without case
	do   func(s scene, m []string) answer
}

func say(text string) func(scene, []string) answer {
	return func(scene, []string) answer { return answer{text: text} }
}

// rules in the order they are tried.
func rules() []rule {
	return []rule{
		{`^\s*(?:please\s+)?change\s+["'“]?(.+?)["'”]?\s+to\s+["'“]?(.+?)["'”]?\s+in\s+(\S+)\s*$`, change},
		{`\b(?:fix|correct|mend)\b.*\btypos?\b(?:.*?\bin\s+(\S+))?\s*$`, fixTypo},
		{`^\s*(?:please\s+)?(?:run|execute)\s+(?:the command\s+)?(.+?)\s*$`, run},
		{`\b(?:remember|note|write down)\b(?:\s+(?:that|down))?[:,]?\s+(.+?)\s*$`, remember},
		{`\bcount\b(?:\D*(\d+))?`, count},
		{`\b(?:long task|slowly|take your time)\b()`, count},
		{`\b(?:find|search)\s+(?:for\s+)?["'“]?(.+?)["'”]?(?:\s+in\s+(\S+))?[.?!]?\s*$`, search},
		{`^\s*(?:please\s+)?ask me\b`, askBack},
		{`\b(?:read|show|open|cat)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?(\S+\.\w+)`, read},
		{`\bwhat(?:'s|\s+is|\s+does)?\s+(?:in\s+)?(?:the\s+)?(?:file\s+)?(\S+\.\w+)`, read},
		{`\b(?:folder|directory|files?|here|ls)\b`, list},
		{`^\s*(?:hi|hello|hey|good (?:morning|evening|day))\b`, say("Hello! " + helpWords)},
		{`\b(?:help|what can you do)\b`, say(helpWords)},
		{`\b(?:who|what) are you\b`, say("I stand in for a real model, so that you can see how Mercury works before you give it a key. " + helpWords)},
		{`\bthank`, say("You are welcome.")},
	}
}

// reply decides. The first answer of a conversation says what it is.
func reply(s scene) answer {
	a := decide(s)
	if a.tool != "" && !s.tools[a.tool] {
		a = answer{text: "For that I need the tool " + a.tool + ", which I was not given here."}
	}
	if s.first {
		a.text = plainWords + a.text
	}
	if a.tool != "" {
		a.id = fmt.Sprintf("call_demo_%d", s.calls+1)
	}
	return a
}

func decide(s scene) answer {
	for _, r := range rules() {
		if m := regexp.MustCompile(`(?is)` + r.says).FindStringSubmatch(s.said); m != nil {
			return r.do(s, m)
		}
	}
	return answer{text: "I know only a few things. " + helpWords}
}

// sorry tells a person about a deed that did not work.
func sorry(what string, d deed) answer {
	if d.refused() {
		return answer{text: "All right, I leave it: I was not allowed to " + what + "."}
	}
	words := firstLine(d.result)
	if strings.HasPrefix(strings.ToLower(words), "error: ") {
		words = words[len("error: "):]
	}
	return answer{text: "I could not " + what + ": " + words}
}

func list(s scene, _ []string) answer {
	d, ok := s.last("list_dir")
	switch {
	case !ok:
		return answer{text: "Let me look.", tool: "list_dir", args: obj{"path": "."}}
	case d.failed():
		return sorry("look into this folder", d)
	case d.result == "":
		return answer{text: "This folder is empty."}
	}
	return answer{text: "This is in the folder:\n\n" + fence(d.result)}
}

func read(s scene, m []string) answer {
	name := clean(m[1])
	d, ok := s.last("read_file")
	switch {
	case !ok:
		return answer{text: "Let me read it.", tool: "read_file", args: obj{"path": name}}
	case d.failed():
		return sorry("read "+name, d)
	}
	return answer{text: name + " says:\n\n" + fence(d.result)}
}

func change(s scene, m []string) answer { return edit(s, m[1], m[2], clean(m[3])) }

func edit(s scene, old, replacement, name string) answer {
	d, ok := s.last("edit_file")
	switch {
	case !ok:
		return answer{
			text: fmt.Sprintf("I would change “%s” to “%s” in %s. Mercury asks you first.", old, replacement, name),
			tool: "edit_file",
			args: obj{"path": name, "old_string": old, "new_string": replacement},
		}
	case d.failed():
		return sorry("change "+name, d)
	}
	return answer{text: fmt.Sprintf("Done: %s now says “%s”.", name, replacement)}
}

// typos are the misspellings that the model knows.
var typos = [][2]string{
	{"tomatos", "tomatoes"}, {"potatos", "potatoes"}, {"teh ", "the "}, {"recieve", "receive"}, {"adress", "address"},
	{"seperate", "separate"}, {"definately", "definitely"}, {"occured", "occurred"}, {"wich ", "which "}, {"untill", "until"},
}

// fixTypo reads, then edits.
func fixTypo(s scene, m []string) answer {
	name := NotesFile
	if m[1] != "" {
		name = clean(m[1])
	}
	if d, edited := s.last("edit_file"); edited {
		fixed, _ := d.args["new_string"].(string)
		return edit(s, "", fixed, name)
	}
	d, ok := s.last("read_file")
	switch {
	case !ok:
		return answer{text: "I read it first.", tool: "read_file", args: obj{"path": name}}
	case d.failed():
		return sorry("read "+name, d)
	}
	for _, t := range typos {
		if strings.Contains(d.result, t[0]) {
			return edit(s, t[0], t[1], name)
		}
	}
	return answer{text: "I see no misspelling that I know in " + name + "."}
}

func run(s scene, m []string) answer {
	command := strings.Trim(strings.TrimSuffix(m[1], "."), "`\"“”")
	d, ok := s.last("run_command")
	switch {
	case !ok:
		return answer{text: "I run it; Mercury asks you first unless it is harmless.", tool: "run_command", args: obj{"command": command, "timeout_seconds": 60}}
	case d.refused():
		return sorry("run "+command, d)
	case d.result == "":
		return answer{text: "It ran and printed nothing."}
	}
	return answer{text: "It printed:\n\n" + fence(d.result)}
}

const memoFile = "notes.md"

// remember adds a line to notes.md, so it reads the file before it writes.
func remember(s scene, m []string) answer {
	what := strings.TrimSuffix(m[1], ".")
	if d, ok := s.last("write_file"); ok {
		if d.failed() {
			return sorry("write "+memoFile, d)
		}
		return answer{text: "Noted in " + memoFile + ": " + what + "."}
	}
	d, ok := s.last("read_file")
	if !ok && s.tools["read_file"] {
		return answer{text: "I look what is noted already.", tool: "read_file", args: obj{"path": memoFile}}
	}
	text := "# Notes\n\n"
	if ok && !d.failed() && d.result != "" {
		text = strings.TrimRight(unnumbered(d.result), "\n") + "\n"
	}
	return answer{text: "I write it down.", tool: "write_file", args: obj{"path": memoFile, "content": text + "- " + what + "\n"}}
}

// unnumbered takes away line numbers, when each line of a read has one.
func unnumbered(text string) string {
	numbers := regexp.MustCompile(`(?m)^\s*\d+(?:\t|\s*[|│→:] ?)`)
	if lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1; len(numbers.FindAllString(text, -1)) < lines {
		return text
	}
	return numbers.ReplaceAllString(text, "")
}

// count is the long answer. After an interruption it goes on behind the last
// number that was kept.
func count(s scene, m []string) answer {
	to := 20
	if n, err := strconv.Atoi(m[1]); err == nil {
		to = min(max(n, 1), 200)
	}
	from, head := 1, "Slowly, then: "
	if n := lastNumber(s.partial); n >= to {
		return answer{text: "I had counted to the end already."}
	} else if n > 0 {
		from, head = n+1, "I was interrupted; I go on: "
	}
	numbers := make([]string, 0, to)
	for i := from; i <= to; i++ {
		numbers = append(numbers, strconv.Itoa(i))
	}
	return answer{text: head + strings.Join(numbers, ", ") + ". That was all.", slow: true}
}

// lastNumber returns the last number of text. One at its very end may be cut,
// as 1 of 12, and is counted again.
func lastNumber(text string) int {
	text = strings.TrimSpace(text)
	all := regexp.MustCompile(`\d+`).FindAllStringIndex(text, -1)
	for i := len(all) - 1; i >= 0; i-- {
		if all[i][1] < len(text) {
			n, _ := strconv.Atoi(text[all[i][0]:all[i][1]])
			return n
		}
	}
	return 0
}

func search(s scene, m []string) answer {
	d, ok := s.last("search_text")
	switch {
	case !ok:
		args := obj{"pattern": regexp.QuoteMeta(m[1])}
		if m[2] != "" {
			args["path"] = clean(m[2])
		}
		return answer{text: "Let me search.", tool: "search_text", args: args}
	case d.failed():
		return sorry("search", d)
	case d.result == "":
		return answer{text: "I found nothing."}
	}
	return answer{text: "I found:\n\n" + fence(d.result)}
}

func askBack(s scene, _ []string) answer {
	d, ok := s.last("ask_user")
	if !ok {
		return answer{text: "A question, then.", tool: "ask_user", args: obj{"question": "Tea or coffee?", "choices": []string{"tea", "coffee"}}}
	}
	return answer{text: "You said: " + firstLine(d.result) + ". Good choice."}
}

// clean makes a file name of what a person wrote.
func clean(name string) string {
	name = strings.Trim(strings.TrimRight(name, "?!,;:."), "`\"'“”")
	return path.Clean(name)
}

// fence shows text as it is, at most forty lines of it.
func fence(text string) string {
	const most = 40
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	more := ""
	if len(lines) > most {
		more = fmt.Sprintf("\n… and %d lines more", len(lines)-most)
		lines = lines[:most]
	}
	return "```\n" + strings.ReplaceAll(strings.Join(lines, "\n"), "```", "'''") + more + "\n```"
}
