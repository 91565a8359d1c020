package permission

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestACommitBearsThePersonsNameUnlessTheRepositoryHasOne(t *testing.T) {
	home := t.TempDir()
	if got := author(home); got != nil {
		t.Errorf("without settings: %q", got)
	}
	settings := "[core]\n\tname = not this\n[user]\n\tName = \"Kim Example\"\n\temail=kim@example.com\n[alias]\n\temail = x\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(author(home), "|"); got != "GIT_AUTHOR_NAME=Kim Example|GIT_AUTHOR_EMAIL=kim@example.com|GIT_COMMITTER_NAME=Kim Example|GIT_COMMITTER_EMAIL=kim@example.com" {
		t.Errorf("got %q", got)
	}
	t.Setenv("HOME", home)
	proj := project(t) + "/w/proj"
	repo(t, proj)
	gate := New(Options{})
	named := func() bool {
		cmd, handled, err := gate.lane.gitWrite([]string{"git", "commit", "-m", "x"}, proj, ownerIn(proj).Scopes)
		if err != nil || !handled {
			t.Fatalf("%v, %v", handled, err)
		}
		return strings.Contains(strings.Join(cmd.Env, " "), "GIT_AUTHOR_NAME=Kim")
	}
	if !named() {
		t.Error("the person's name is not said")
	}
	config := filepath.Join(proj, ".git", "config")
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, append(b, "[user]\n\tname = Work\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if named() {
		t.Error("it goes over the repository's own name")
	}
}
