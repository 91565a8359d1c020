package permission

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestASecretIsFoundInEveryFormItTravelsIn(t *testing.T) {
	const secret = `k3y/with+"quotes"&more_0123456789`
	var v Vault
	v.Fill(map[string]string{`providers."x".api_key`: secret, "env PLAIN": "ollama", "env SHORT": "a1b2"})
	quoted, _ := json.Marshal(secret)
	for _, text := range []string{
		"say " + secret + " loud",
		string(quoted),
		base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.StdEncoding.EncodeToString([]byte("user:" + secret + "\n")),
		base64.StdEncoding.EncodeToString([]byte("a" + secret + "xyz")),
		base64.URLEncoding.EncodeToString([]byte("ab" + secret)),
	} {
		if got := v.Hide(text); strings.Contains(got, "0123456789") || !strings.Contains(got, "[secret ") {
			t.Errorf("Hide(%s) = %s", text, got)
		}
	}
	if got := v.Hide(string(quoted)); !json.Valid([]byte(got)) {
		t.Errorf("a hidden text broke its JSON: %s", got)
	}
	if text := "the ollama server, a1b2"; v.Hide(text) != text {
		t.Errorf("a common word counts as a secret: %s", v.Hide(text))
	}
}

func TestEachLineOfAPrivateKeyIsASecret(t *testing.T) {
	var v Vault
	v.Add("env KEY", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAo\n-----END PRIVATE KEY-----")
	if got := v.Hide("line: BAQEFAASCBKcwggSjAgEAAo"); strings.Contains(got, "BAQE") {
		t.Errorf("got %q", got)
	}
}

// pieces streams text cut after every n bytes.
func pieces(v *Vault, text string, n int) string {
	s, out := v.Stream(), ""
	for len(text) > 0 {
		k := min(n, len(text))
		out += s.Write(text[:k])
		text = text[k:]
	}
	return out + s.Flush()
}

func TestASecretIsHiddenHoweverAStreamIsCut(t *testing.T) {
	var v Vault
	v.Add("key", "sk-CANARY-sk-CANARY-0123")
	for _, text := range []string{"it is sk-CANARY-sk-CANARY-0123, yes", "sk-CANARY-sk-CANARY-sk-CANARY-0123", "ends in sk-CANARY", "none at all"} {
		want := v.Hide(text)
		for n := 1; n <= len(text); n++ {
			if got := pieces(&v, text, n); got != want {
				t.Fatalf("cut by %d: %q, want %q", n, got, want)
			}
		}
	}
}

func TestASecretLeavesOnlyTowardsItsHost(t *testing.T) {
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "welcome") }))
	defer home.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a secret reached another host") }))
	defer other.Close()
	var v Vault
	v.Add("providers.x.api_key", "sk-secret-0123456789")
	b := NewBroker(&v)
	b.Bind("sk-secret-0123456789", home.URL+"/v1")
	c := http.Client{Transport: b.Transport(http.DefaultTransport)}
	ask := func(address string, header string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			r.Header.Set("X-Api-Key", header)
		}
		res, err := c.Do(r)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	if err := ask(home.URL, "sk-secret-0123456789"); err != nil {
		t.Errorf("its own host: %v", err)
	}
	for name, err := range map[string]error{
		"header":  ask(other.URL, "sk-secret-0123456789"),
		"address": ask(other.URL+"/?k=sk-secret-0123456789", ""),
		"encoded": ask(other.URL+"/"+base64.RawURLEncoding.EncodeToString([]byte("x:sk-secret-0123456789")), ""),
	} {
		if err == nil || strings.Contains(err.Error(), "not for that host") == false {
			t.Errorf("%s: %v", name, err)
		}
	}
}
