package permission

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

func TestMaskingLeavesWhatIsNoSecret(t *testing.T) {
	for in, want := range map[string]string{
		"key " + "gh" + "p_" + strings.Repeat("aB3", 12) + " end": "key [masked] end",
		"DB_PASSWORD=hunter2hunter2\nPORT=80":                     "DB_PASSWORD=[masked]\nPORT=80",
		`{"clientSecret": "a1b2c3d4e5", "x": 1}`:                  `{"clientSecret": "[masked]", "x": 1}`,
		"postgres://app:s3cretpw@db.example/x":                    "postgres://app:[masked]@db.example/x",
		"Authorization: Bearer abcdefghijklmnop1234":              "Authorization: Bearer [masked]",
		"https://x.example/?a=1&access_token=abcdef123456&b=2":    "https://x.example/?a=1&access_token=[masked]&b=2",
		"token := parser.Next()":                                  "token := parser.Next()",
		"password: string":                                        "password: string",
		"max_tokens=4096 token_count: 100000000":                  "max_tokens=4096 token_count: 100000000",
		"secret_name: projects/x1/secrets/y2":                     "secret_name: projects/x1/secrets/y2",
		"the password is in the vault":                            "the password is in the vault",
		"next_page_token=abc123def456gh78":                        "next_page_token=abc123def456gh78",
		"docker run -u 1000:1000 img":                             "docker run -u 1000:1000 img",
	} {
		if got := Mask(in); got != want {
			t.Errorf("Mask(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAKnownSecretLeavesNoTextInAnyEncoding(t *testing.T) {
	var v Vault
	secret := `canary "s3cret"/+`
	v.Add("telegram", secret)
	v.Add("short", "ab")
	for _, text := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), `canary \"s3cret\"/+`,
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		if got := v.Mask("x " + text + " y"); got != "x [secret telegram] y" {
			t.Errorf("%q becomes %q", text, got)
		}
		if _, hidden := v.Screen("x " + text); !hidden {
			t.Errorf("%q is shown", text)
		}
	}
	if got := v.Mask("ab"); got != "ab" {
		t.Errorf("a short value took words out: %q", got)
	}
	v.Forget("telegram")
	if got := v.Mask(secret); got != secret {
		t.Errorf("a forgotten secret is still masked: %q", got)
	}
}

func TestTheLongerSecretWins(t *testing.T) {
	var v Vault
	v.Add("one", "abcdef")
	v.Add("two", "abcdefghij")
	if got := v.Mask("abcdefghij abcdef"); got != "[secret two] [secret one]" {
		t.Errorf("%q", got)
	}
}

func FuzzMask(f *testing.F) {
	for _, c := range corpus(f, "secrets.jsonl") {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		masked := Mask(s)
		if masked != s && !strings.Contains(masked, Masked) {
			t.Fatalf("%q becomes %q", s, masked)
		}
		if _, hidden := Screen(s); !hidden && masked != s {
			t.Fatalf("%q is masked in logs and shown in notices", s)
		}
	})
}

// BenchmarkMask looks through an ordinary tool output of 50 KB.
func BenchmarkMask(b *testing.B) {
	text := strings.Repeat("internal/x/y.go:120: func (g *Gate) read(name string) error { token := next() }\n", 620)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Mask(text)
	}
}

func TestEveryShapeCanBeLookedFor(t *testing.T) {
	for _, s := range shapes {
		if (s.re == nil) == (s.scan == nil) {
			t.Errorf("%s: wants an expression or a scanner, and one of them", s.name)
		}
		if s.re != nil && s.re().NumSubexp() > 2 {
			t.Errorf("%s has groups that nobody reads", s.name)
		}
	}
}
