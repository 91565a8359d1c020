package tool

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestATitleTellsAPathFromTheWorkspace(t *testing.T) {
	for target, want := range map[string]string{"/w/proj/src/a.go": "write src/a.go (src/a.go asks)", "/w/proj": "write /w/proj (/w/proj asks)", "/w/other/b": "write /w/other/b (/w/other/b asks)"} {
		c := Call{Name: "write_file", Mandate: mercury.Mandate{Workspace: "/w/proj"}}
		p := Prepared{Accesses: []mercury.Access{{Kind: mercury.WritePath, Target: target}}, Judgement: mercury.Judgement{Why: target + " asks."}}
		if got := title(c, p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
