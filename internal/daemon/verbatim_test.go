package daemon

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestAddressesAreFoundAsTheyStand(t *testing.T) {
	got := addresses("See https://a.example/x?y=1, (http://b.example/w_(z)) and [t](https://c.example/p). Not ftp://d or https.\n   https://e.example/\u00fc|")
	want := []string{"https://a.example/x?y=1", "http://b.example/w_(z)", "https://c.example/p", "https://e.example/\u00fc"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyTheOwnersWordsAndAFewFindsCountAsVerbatim(t *testing.T) {
	said := func(role mercury.Role, text string, taint ...string) mercury.Entry {
		return mercury.Entry{Kind: mercury.UserEntry, Actor: mercury.Actor{Role: role}, Text: text, Taint: taint}
	}
	result := func(run, tool, text string) mercury.Entry {
		b, err := json.Marshal(map[string]string{"tool": tool, "result": text})
		if err != nil {
			t.Fatal(err)
		}
		return mercury.Entry{Kind: mercury.ToolResultEntry, RunID: run, Data: b, Taint: []string{"web:x"}}
	}
	entries := []mercury.Entry{
		said(mercury.Owner, "read https://owner.example/"),
		said(mercury.Schedule, "https://schedule.example/"),
		said(mercury.Member, "https://member.example/"),
		said(mercury.Owner, "forwarded https://tainted.example/", "mail"),
		{Kind: mercury.AssistantEntry, Text: "https://model.example/?d=secret"},
		result("old", "web_search", "https://old.example/"),
		result("now", "run_command", "https://command.example/"),
		result("now", "web_search", "1. T\n   https://found.example/"),
		result("now", "fetch_url", "[a](https://linked.example/)"),
	}
	check := func(want ...string) {
		t.Helper()
		if got := wordForWord(entries, "now"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check("https://owner.example/", "https://schedule.example/", "https://found.example/", "https://linked.example/")
	for range pageFetches - 1 {
		entries = append(entries, result("now", "fetch_url", ""))
	}
	check("https://owner.example/", "https://schedule.example/", "https://found.example/")
	for range foundFetches - pageFetches {
		entries = append(entries, result("now", "fetch_url", ""))
	}
	check("https://owner.example/", "https://schedule.example/")
}
