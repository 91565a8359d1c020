//go:build unix

package sweep

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/skill"
)

func TestAnInstallationThatIsKilledAnywhereLeavesTheOldSkillOrTheNewWhole(t *testing.T) {
	t.Parallel()
	home, dir := inhabited(t), t.TempDir()
	version := func(n string) string {
		at := filepath.Join(dir, n, "tidy")
		for name, text := range map[string]string{skill.FileName: "---\nname: tidy\ndescription: Tidies, " + n + ".\n---\nRun scripts/tidy.sh\n", "scripts/tidy.sh": "echo " + n + "\n"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(at, name)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return at
	}
	first, second := version("one"), version("two")
	points := pointsOf(t, func(list string) { mercuryIn(t, home, "", list, "skills", "install", first, "--yes") })
	if !slices.ContainsFunc(points, func(p string) bool { return strings.HasPrefix(p, "skill.pinned") }) {
		t.Fatalf("the points are %v", points)
	}
	whole := func(at string) {
		t.Helper()
		b, err := skill.ReadFolder(filepath.Join(home, "skills", "tidy"))
		if err != nil {
			// Between two renames neither stands in its place; the former is kept.
			b, err = skill.ReadFolder(filepath.Join(home, "skills", ".former-tidy"))
		}
		if err != nil {
			t.Fatalf("killed at %s: no whole skill is left: %v", at, err)
		}
		said := strings.Contains(b.Description, "two")
		if script := string(b.Files["scripts/tidy.sh"].Text); strings.Contains(script, "two") != said {
			t.Errorf("killed at %s: %q with %q", at, b.Description, script)
		}
		all, err := skill.New(skill.Options{Home: filepath.Join(home, "skills")}).List()
		if err != nil {
			t.Fatalf("killed at %s: %v", at, err)
		}
		for _, e := range all {
			if e.Name == "tidy" && e.State == skill.Ready && e.Hash != b.Hash() {
				t.Errorf("killed at %s: files are used that nobody allowed", at)
			}
		}
	}
	killed := 0
	for i, p := range points {
		from := []string{first, second}[i%2]
		if mercuryIn(t, home, p, "", "skills", "install", from, "--yes") {
			killed++
		}
		whole(p)
	}
	if killed < 4 {
		t.Errorf("killed %d times only", killed)
	}
	mercuryIn(t, home, "", "", "skills", "install", second, "--yes")
	whole("the end")
	if b, err := skill.ReadFolder(filepath.Join(home, "skills", "tidy")); err != nil || !strings.Contains(b.Description, "two") {
		t.Errorf("at the end: %+v, %v", b.Skill, err)
	}
}
