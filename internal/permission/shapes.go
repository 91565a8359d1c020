package permission

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// shape is one form in which a secret shows itself. The secret is the first
// group of the expression, or all of it when there is none.
type shape struct {
	name string
	hint string // lower-case text that must occur; keeps the search cheap
	re   func() *regexp.Regexp
	// scan stands in for re where an expression would be slow: it returns
	// matches as FindAllStringSubmatchIndex does.
	scan func(text string) [][]int
	// loose shapes also meet harmless text, so they hide a notice but do not
	// change what a tool printed.
	loose bool
	// check has the last word on a match; m[0] is all of it.
	check func(m []string) bool
}

// shapes are the forms that vendors give their keys, and the ways in which
// commands, headers and settings carry secrets. Lengths are a little below the
// vendors' so that a cut key is still seen.
var shapes = []shape{
	{name: "private key", hint: "private key", re: lazily(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`)},
	{name: "age key", hint: "age-secret-key-", re: lazily(`AGE-SECRET-KEY-1[A-Z0-9]{30,}`)},
	{name: "token", hint: "eyj", re: lazily(`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`)},
	vendor("sk-", `[A-Za-z0-9_-]{16,}`), vendor("gsk_", `[A-Za-z0-9]{20,}`), vendor("xai-", `[A-Za-z0-9]{20,}`),
	vendor("pplx-", `[A-Za-z0-9]{20,}`), vendor("hf_", `[A-Za-z0-9]{20,}`), vendor("nvapi-", `[A-Za-z0-9_-]{20,}`),
	vendor("tvly-", `[A-Za-z0-9-]{16,}`), vendor("fw_", `[A-Za-z0-9]{20,}`), vendor("r8_", `[A-Za-z0-9]{20,}`),
	vendor("AIza", `[A-Za-z0-9_-]{30,}`), vendor("ya29.", `[A-Za-z0-9_-]{20,}`), vendor("GOCSPX-", `[A-Za-z0-9_-]{20,}`),
	vendor("AKIA", `[A-Z0-9]{12,}`), vendor("ASIA", `[A-Z0-9]{12,}`), vendor("ABIA", `[A-Z0-9]{12,}`), vendor("ACCA", `[A-Z0-9]{12,}`),
	vendor("ghp_", `[A-Za-z0-9]{16,}`), vendor("gho_", `[A-Za-z0-9]{16,}`), vendor("ghu_", `[A-Za-z0-9]{16,}`),
	vendor("ghs_", `[A-Za-z0-9]{16,}`), vendor("ghr_", `[A-Za-z0-9]{16,}`), vendor("github_pat_", `[A-Za-z0-9_]{20,}`),
	vendor("glpat-", `[A-Za-z0-9_.-]{16,}`), vendor("gldt-", `[A-Za-z0-9_-]{16,}`), vendor("glrt-", `[A-Za-z0-9_-]{16,}`),
	vendor("glptt-", `[A-Za-z0-9_-]{16,}`), vendor("glcbt-", `[A-Za-z0-9_-]{16,}`), vendor("glsa_", `[A-Za-z0-9_]{20,}`),
	vendor("glc_", `[A-Za-z0-9+/=]{30,}`),
	{name: "Slack token", hint: "xox", re: lazily(`xox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}`)},
	vendor("xapp-", `[A-Za-z0-9-]{16,}`),
	{name: "Slack webhook", hint: "hooks.slack.com", re: lazily(`hooks\.slack\.com/(?:services|workflows)/([A-Za-z0-9/_-]{16,})`)},
	{name: "Telegram token", hint: ":", re: lazily(`(?:^|[^0-9])([0-9]{8,12}:[A-Za-z0-9_-]{30,})`)},
	{name: "Discord webhook", hint: "/api/webhooks/", re: lazily(`/api/webhooks/[0-9]+/([A-Za-z0-9_-]{20,})`)},
	{name: "Discord token", hint: ".", re: lazily(`\b[MNO][A-Za-z0-9_-]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,}`)},
	vendor("sk_live_", `[A-Za-z0-9]{12,}`), vendor("sk_test_", `[A-Za-z0-9]{12,}`), vendor("rk_live_", `[A-Za-z0-9]{12,}`),
	vendor("rk_test_", `[A-Za-z0-9]{12,}`), vendor("whsec_", `[A-Za-z0-9+/=]{16,}`), vendor("sq0csp-", `[A-Za-z0-9_-]{20,}`),
	vendor("sq0atp-", `[A-Za-z0-9_-]{20,}`), vendor("EAAA", `[A-Za-z0-9_-]{40,}`),
	{name: "SendGrid key", hint: "sg.", re: lazily(`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`)},
	{name: "Twilio key", hint: "sk", re: lazily(`\bSK[0-9a-f]{32}\b`)},
	{name: "Mailgun key", hint: "key-", re: lazily(`\bkey-[0-9a-f]{32}\b`)},
	{name: "Mailchimp key", hint: "-us", re: lazily(`\b[0-9a-f]{32}-us[0-9]{1,2}\b`)},
	vendor("npm_", `[A-Za-z0-9]{20,}`), vendor("pypi-", `[A-Za-z0-9_-]{20,}`), vendor("rubygems_", `[0-9a-f]{30,}`),
	vendor("dop_v1_", `[0-9a-f]{30,}`), vendor("doo_v1_", `[0-9a-f]{30,}`), vendor("dor_v1_", `[0-9a-f]{30,}`),
	vendor("shpat_", `[0-9a-fA-F]{20,}`), vendor("shpca_", `[0-9a-fA-F]{20,}`), vendor("shppa_", `[0-9a-fA-F]{20,}`), vendor("shpss_", `[0-9a-fA-F]{20,}`),
	vendor("ntn_", `[A-Za-z0-9]{20,}`), vendor("secret_", `[A-Za-z0-9]{30,}`), vendor("lin_api_", `[A-Za-z0-9]{20,}`),
	vendor("figd_", `[A-Za-z0-9_-]{20,}`), vendor("dckr_pat_", `[A-Za-z0-9_-]{16,}`), vendor("hvs.", `[A-Za-z0-9_-]{20,}`),
	vendor("hvb.", `[A-Za-z0-9_-]{20,}`), vendor("sntrys_", `[A-Za-z0-9+/=_-]{20,}`), vendor("sntryu_", `[A-Za-z0-9]{20,}`),
	vendor("PMAK-", `[A-Za-z0-9-]{20,}`), vendor("NRAK-", `[A-Z0-9]{20,}`), vendor("tskey-", `[A-Za-z0-9-]{16,}`),
	vendor("dapi", `[0-9a-f]{32}`), vendor("sbp_", `[0-9a-f]{30,}`), vendor("nfp_", `[A-Za-z0-9]{20,}`), vendor("CFPAT-", `[A-Za-z0-9_-]{20,}`),
	vendor("lsv2_", `[A-Za-z0-9_]{20,}`), vendor("pul-", `[0-9a-f]{40}`), vendor("fm2_", `[A-Za-z0-9+/=]{40,}`), vendor("phx_", `[A-Za-z0-9]{20,}`), vendor("sl.", `[A-Za-z0-9_-]{40,}`),
	vendor("ATATT3x", `[A-Za-z0-9_=-]{30,}`), vendor("ATCTT3x", `[A-Za-z0-9_=-]{30,}`), vendor("ops_", `eyJ[A-Za-z0-9_-]{30,}`),
	{name: "Airtable token", hint: "pat", re: lazily(`\bpat[A-Za-z0-9]{14}\.[0-9a-f]{40,}`)},
	{name: "Azure key", hint: "key=", re: lazily(`(?i)(?:Account|SharedAccess)Key=([A-Za-z0-9+/=]{20,})`)},

	{name: "header", hint: "authorization", re: lazily(`(?i)\bauthorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|apikey|digest|negotiate)\s+)?([^\s"'$<{\[*][^\s"']{5,})`), check: looksMade},
	{name: "bearer", hint: "bearer", re: lazily(`(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{16,})`), check: looksMade},
	{name: "cookie", hint: "cookie:", re: lazily(`(?i)\b(?:set-)?cookie:\s*([^\s"';=]+=[^"'\s;]{6,})`)},
	{name: "key header", hint: "x-", re: lazily(`(?i)\bx-[a-z-]*(?:key|token|secret|auth)[a-z-]*["']?\s*:\s*["']?([^\s"'$<{*][^\s"']{5,})`)},
	{name: "URL password", hint: "://", re: lazily(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/@:"'<>]*:([^\s/@"'<>$*{][^\s/@"'<>]*)@`)},
	{name: "URL token", hint: "://", re: lazily(`(?i)\bhttps?://([A-Za-z0-9_-]{20,})@`)},
	{name: "signed URL", hint: "sig", re: lazily(`(?i)[?&](?:sig|signature|x-amz-signature|x-goog-signature|hmac)=([^&\s"']{12,})`)},
	{name: "URL key", hint: "key=", re: lazily(`(?i)[?&]key=([^&\s"'$<{]{16,})`), check: looksMade},

	{name: "setting", scan: settings, check: madeSetting},
	{name: "setting", loose: true, scan: settings, check: anySetting},
	{name: "password option", hint: "--", loose: true, re: lazily(`(?i)(?:^|\s)--?(?:[a-z]+-)*(?:password|passwd|passphrase|pass|token|secret|api-?key|access-key|secret-key|private-key)(?:=|\s+)["']?([^\s"'$<-][^\s"']{2,})`)},
	{name: "user and password", hint: "-u", loose: true, re: lazily(`(?:^|\s)(?:-u|--user|--proxy-user|-U)(?:\s+|=)?["']?[^\s:"'/=]+:([^\s"'$][^\s"']*)`), check: func(m []string) bool {
		return strings.Trim(m[1], "0123456789") != "" && !strings.HasPrefix(m[1], "/")
	}},
	{name: "password argument", hint: "-p", loose: true, re: lazily(`\b(?:sshpass|(?:docker|podman|buildah|helm|oras|az|skopeo)\s[^|;&]*login|mongo(?:sh|dump|restore|import|export)?|twine|mosquitto_(?:pub|sub)|7z[ar]?)\b(?:[^|;&]*?\s)-[pP]\s*["']?([^\s"'$-][^\s"']*)`)},
	{name: "password argument", hint: "-p", loose: true, re: lazily(`\b(?:mysql|mariadb|mysqldump|mysqladmin|mysqlimport|mariadb-dump)\b(?:[^|;&]*?\s)-p([^\s"'$-][^\s"']*)`)},
	{name: "password argument", hint: "", loose: true, re: lazily(`\b(?:redis-cli\b[^|;&]*?\s-a|(?:zip|unzip)\b[^|;&]*?\s-P|ldap(?:search|modify|add|delete|passwd)\b[^|;&]*?\s-w)\s*["']?([^\s"'$-][^\s"']*)`)},
	{name: "password argument", hint: "pass:", loose: true, re: lazily(`\bpass:([^\s"'$]+)`)},
	{name: "password argument", hint: "%", loose: true, re: lazily(`(?:^|\s)-U\s*["']?[^\s%"']+%([^\s"'$]+)`)},
	{name: "cookie argument", hint: "curl", loose: true, re: lazily(`\bcurl\b[^|;&]*?\s(?:-b|--cookie)[\s=]*["']?[^\s=;"']+=([^\s"';$]{6,})`)},
	{name: "netrc line", hint: "password", loose: true, re: lazily(`\blogin\s+\S+\s+password\s+([^\s$]+)`)},
	{name: "password argument", hint: "openssl", loose: true, re: lazily(`\bopenssl\b[^|;&]*?\s-k\s+([^\s"'$-][^\s"']*)`)},
	{name: "password argument", hint: "vault login", loose: true, re: lazily(`\bvault login\s+([A-Za-z0-9._-]{12,})`)},
	{name: "password pipe", hint: "chpasswd", loose: true, re: lazily(`[^\s:"']+:([^\s"'$]+)["']?\s*\|\s*(?:sudo\s+)?chpasswd`)},
}

// vendor is a key that begins with a fixed prefix, which does not stand inside
// a longer word.
func vendor(prefix, rest string) shape {
	return shape{
		name:  prefix + "key",
		hint:  strings.ToLower(prefix),
		re:    lazily(`(?:^|[^A-Za-z0-9_-])(` + regexp.QuoteMeta(prefix) + rest + `)`),
		check: looksMade,
	}
}

// looksMade tells a generated value from words: it holds a digit or a capital
// letter.
func looksMade(m []string) bool {
	v := m[len(m)-1]
	if at := strings.IndexAny(v, "-_"); at >= 0 && at < 4 {
		v = v[at+1:]
	}
	return strings.IndexFunc(v, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsUpper(r) }) >= 0
}

// madeSetting accepts name = value where the name calls it a secret and the
// value is no word, number or piece of code.
func madeSetting(m []string) bool {
	name, v := m[1], m[2]
	if !namesSecret(name) && !isKeyVariable(name, v) || len(v) < 8 || placeholder(v) {
		return false
	}
	digit := strings.IndexFunc(v, unicode.IsDigit) >= 0
	letter := strings.IndexFunc(v, unicode.IsLetter) >= 0
	return digit && letter && !dotted().MatchString(v)
}

// anySetting accepts any value under such a name.
func anySetting(m []string) bool {
	name, v := m[1], m[2]
	return (namesSecret(name) || isKeyVariable(name, v)) && len(v) >= 3 && !placeholder(v)
}

// isKeyVariable recognises an environment variable such as OPENAI_KEY with a
// value that only a generator makes.
func isKeyVariable(name, v string) bool {
	return strings.HasSuffix(name, "_KEY") && strings.ToUpper(name) == name && len(v) >= 16 &&
		strings.IndexFunc(v, unicode.IsDigit) >= 0 && strings.IndexFunc(v, unicode.IsLetter) >= 0
}

var dotted = lazily(`^[A-Za-z_]\w*(?:(?:\.|->|::|/)[A-Za-z_]\w*)+$`)

func placeholder(v string) bool {
	switch strings.ToLower(v) {
	case "null", "none", "nil", "true", "false", "undefined", "string", "str", "bytes", "required", "optional", "redacted", "changeme":
		return true
	}
	return strings.Trim(v, "*xX.…-_•") == "" || strings.HasPrefix(v, "[") || strings.Contains(v, "REDACTED")
}

// namesSecret reports whether a setting's name says that its value is secret:
// DB_PASSWORD, clientSecret and --access-token do, max_tokens does not.
func namesSecret(name string) bool {
	parts := nameParts(name)
	for i, p := range parts {
		switch p {
		case "pwd", "pass", "passwd", "password", "passphrase", "secret", "token", "apikey", "credential", "credentials", "authkey", "accesskey", "sshpass", "dbpass":
			// token_count and password_file speak about it.
			if i+1 < len(parts) && about[parts[i+1]] || i > 0 && places[parts[i-1]] {
				return false
			}
			return true
		case "key":
			if i > 0 && keyKinds[parts[i-1]] {
				return true
			}
		}
		for _, end := range []string{"password", "passwd", "apikey", "authtoken", "accesstoken", "clientsecret", "secretkey"} {
			if strings.HasSuffix(p, end) {
				return true
			}
		}
	}
	return false
}

var keyKinds = words("api access secret private auth encryption signing master session service account storage")

// places are what a token marks a place in a list with: page_token is none.
var places = words("page next continuation pagination start resume sync")

var about = words("count counts file files path name names length size type types limit limits url uri endpoint id ids ttl expiry expires field policy store manager provider hash kind usage budget")

func nameParts(name string) []string {
	var parts []string
	var cur strings.Builder
	flush := func() {
		if cur.Len() > 0 {
			parts = append(parts, strings.ToLower(cur.String()))
			cur.Reset()
		}
	}
	before := rune(0)
	for _, r := range name {
		if r == '_' || r == '-' || r == '.' {
			flush()
		} else {
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				flush()
			}
			cur.WriteRune(r)
		}
		before = r
	}
	flush()
	return parts
}

// lazily compiles an expression when a text first shows its hint. All of them
// together cost more than the start of the program and a megabyte for good,
// while most homes never meet most of them.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
