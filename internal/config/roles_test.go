package config

import (
	"os"
	"strings"
	"testing"
)

func TestRolesAndPermissionsMustExist(t *testing.T) {
	for text, want := range map[string]string{
		"roles: { guest: { permissions: [prompt, 'tasks.*'] } }\nchannels: { relay: { url: 'http://127.0.0.1:1', roles: { eve: guest, ada: admin } } }": "",
		"roles: { guest: { permissions: [promt] } }":                                `names "promt", which is no permission`,
		"roles: { owner: { tools: [read_file] } }":                                  "cannot be changed",
		"channels: { relay: { url: 'http://127.0.0.1:1', roles: { eve: guest } } }": `names the role "guest", which does not exist`,
		"channels: { telegram: { token: x, roles: { '12': owner } } }":              `names the role "owner", which does not exist`,
		"roles: { guest: { messages_per_minute: -1 } }":                             "messages_per_minute",
	} {
		home, err := HomeAt(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(home.Config(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Load(Source{Home: home, Getenv: func(string) string { return "" }})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n\tgot %v, want %q", text, err, want)
		}
	}
}
