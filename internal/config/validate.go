package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// validate checks what types and tags cannot. found are the problems there
// already: a key that has one is not reported twice.
func (c *Config) validate(found Problems) Problems {
	v := validator{c: c, done: map[string]bool{}}
	for _, p := range found {
		v.done[p.Key] = true
	}
	v.models()
	v.addresses()
	v.times()
	v.paths()
	v.servers()
	v.roles()
	return v.problems
}

// roles checks that every permission and every role that is given exists.
func (v *validator) roles() {
	known := []string{string(mercury.Admin), string(mercury.Member)}
	for _, name := range slices.Sorted(maps.Keys(v.c.Roles)) {
		key := joinKey([]string{"roles", name})
		switch mercury.Role(name) {
		case mercury.Owner, mercury.Stranger, mercury.BotRole, mercury.HelperRole, mercury.Schedule:
			v.wrong(key, "is a role that cannot be changed", "Change admin or member, or choose another name.")
		case mercury.Admin, mercury.Member:
		default:
			known = append(known, name)
		}
		for i, p := range v.c.Roles[name].Permissions {
			if !slices.ContainsFunc(mercury.Permissions(), mercury.Permission(p).Covers) {
				v.wrong(fmt.Sprintf("%s.permissions.%d", key, i), fmt.Sprintf("names %s, which is no permission", quoted(p)),
					"The permissions are: "+joinPermissions()+".")
			}
		}
	}
	ch := v.c.Channels
	given := map[string]map[string]string{}
	if ch.Telegram != nil {
		given["telegram"] = ch.Telegram.Roles
	}
	if ch.Discord != nil {
		given["discord"] = ch.Discord.Roles
	}
	if ch.Slack != nil {
		given["slack"] = ch.Slack.Roles
	}
	if ch.IMessage != nil {
		given["imessage"] = ch.IMessage.Roles
	}
	if ch.Relay != nil {
		given["relay"] = ch.Relay.Roles
	}
	for _, channel := range slices.Sorted(maps.Keys(given)) {
		for _, id := range slices.Sorted(maps.Keys(given[channel])) {
			if role := given[channel][id]; !slices.Contains(known, role) {
				v.wrong(joinKey([]string{"channels", channel, "roles", id}), fmt.Sprintf("names the role %s, which does not exist", quoted(role)),
					"Use one of: "+strings.Join(known, ", ")+"; owners stand under owners.")
			}
		}
	}
}

func joinPermissions() string {
	var names []string
	for _, p := range mercury.Permissions() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

type validator struct {
	c        *Config
	done     map[string]bool
	problems Problems
}

// wrong reports a problem of the value at key, at the place it was written.
func (v *validator) wrong(key, message, help string) {
	if v.done[key] {
		return
	}
	v.done[key] = true
	o := v.c.origins[key]
	p := Problem{Key: key, Message: key + " " + message, Help: help}
	if o.Source == FromFile {
		p.File, p.Line, p.Column = o.File, o.Line, o.Column
	} else if o.Source != "" {
		p.Message = fmt.Sprintf("%s: %s", o, p.Message)
	}
	v.problems = append(v.problems, p)
}

func (v *validator) models() {
	check := func(key, model string) {
		name, _, ok := SplitModel(model)
		if !ok {
			v.wrong(key, fmt.Sprintf("should be written provider/model, not %s", quoted(model)), "Write it like openai/gpt-5-mini or ollama/qwen3:8b.")
			return
		}
		if _, ok := v.c.Providers[name]; ok {
			return
		}
		help := "Add it below providers with its base_url, or use one of: " + strings.Join(v.c.providerNames(), ", ") + "."
		if near := nearest(name, v.c.providerNames()); near != "" {
			help = fmt.Sprintf("Did you mean %s? Otherwise add it below providers with its base_url.", near)
		}
		v.wrong(key, fmt.Sprintf("names the provider %s, which is not configured", quoted(name)), help)
	}
	if v.c.Model != "" {
		check("model", v.c.Model)
	}
	for i, m := range v.c.Fallbacks {
		check(fmt.Sprintf("fallbacks.%d", i), m)
	}
	for _, name := range slices.Sorted(maps.Keys(v.c.Providers)) {
		p := v.c.Providers[name]
		key := joinKey([]string{"providers", name})
		if strings.ContainsAny(name, "/ \t") {
			v.wrong(key, "has a name with a slash or a blank", "Use letters, digits, - and _.")
		}
		if p.BaseURL == "" {
			v.wrong(key, "has no base_url, and no provider of this name is known", "Add the base_url.")
			continue
		}
		v.url(key+".base_url", p.BaseURL, "http", "https")
	}
	for _, model := range slices.Sorted(maps.Keys(v.c.Prices)) {
		if _, _, ok := SplitModel(model); !ok {
			v.wrong(joinKey([]string{"prices", model}), "should be named provider/model", "Write it like openai/gpt-5-mini.")
		}
	}
}

func (v *validator) addresses() {
	c := v.c
	if _, port, err := net.SplitHostPort(c.Web.Listen); err != nil || !isPort(port) {
		v.wrong("web.listen", fmt.Sprintf("should be host:port, not %s", quoted(c.Web.Listen)), "Write it like 127.0.0.1:6174.")
	}
	v.secretURL("database.url", c.Database.URL, "postgres", "postgresql")
	v.secretURL("http.proxy", c.HTTP.Proxy, "http", "https", "socks5", "socks5h")
	v.url("telemetry.otlp_url", c.Telemetry.OTLPURL, "http", "https")
	v.url("spotify.redirect_uri", c.Spotify.RedirectURI)
	v.url("github.api_url", c.GitHub.APIURL, "https", "http")
	v.url("web_search.url", c.WebSearch.URL, "https", "http")
	ch := c.Channels
	if ch.Telegram != nil {
		v.url("channels.telegram.api_url", ch.Telegram.APIURL, "http", "https")
	}
	if ch.Discord != nil {
		v.url("channels.discord.api_url", ch.Discord.APIURL, "http", "https")
	}
	if ch.Slack != nil {
		v.url("channels.slack.api_url", ch.Slack.APIURL, "http", "https")
	}
	if ch.Relay != nil {
		v.url("channels.relay.url", ch.Relay.URL, "http", "https", "ws", "wss")
	}
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && (n > 0 || s == "0")
}

// url checks an address; an empty one is none. No schemes means any.
func (v *validator) url(key, text string, schemes ...string) {
	if text == "" {
		return
	}
	if !isURL(text, schemes) {
		v.wrong(key, "should be an address, not "+quoted(text), "Write it with its scheme: "+strings.Join(schemes, ", ")+".")
	}
}

// secretURL checks an address that may hold a password, so it is never shown.
func (v *validator) secretURL(key string, s Secret, schemes ...string) {
	if text, err := s.Value(); err == nil && text != "" && !isURL(text, schemes) {
		v.wrong(key, "is not an address", "Write it with its scheme: "+strings.Join(schemes, ", ")+".")
	}
}

func isURL(text string, schemes []string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return false
	}
	if len(schemes) == 0 {
		return true
	}
	return slices.Contains(schemes, strings.ToLower(u.Scheme)) && (u.Host != "" || strings.HasPrefix(u.Scheme, "postgres"))
}

func (v *validator) times() {
	if _, err := v.c.Location(); err != nil {
		v.wrong("timezone", fmt.Sprintf("should be an IANA zone, not %s", quoted(v.c.Timezone)), "Write it like Europe/Lisbon or UTC; leave it empty for the machine's.")
	}
	q := v.c.QuietHours
	for _, t := range []struct{ key, text string }{{"quiet_hours.from", q.From}, {"quiet_hours.to", q.To}} {
		if _, err := time.Parse("15:04", t.text); err != nil && t.text != "" {
			v.wrong(t.key, fmt.Sprintf("should be a time of day, not %s", quoted(t.text)), `Write it like "22:00", with the quotes.`)
		}
	}
	if (q.From == "") != (q.To == "") {
		v.wrong("quiet_hours", "needs both from and to", "Add the other, or remove the section.")
	}
}

func (v *validator) paths() {
	c := v.c
	absolute := func(key, path string) {
		if path != "" && !filepath.IsAbs(ExpandPath(path)) {
			v.wrong(key, fmt.Sprintf("should be an absolute folder or begin with ~, not %s", quoted(path)), "Write it like ~/notes or /srv/notes.")
		}
	}
	if c.Workspace == "" {
		v.wrong("workspace", "is empty", "Name a folder, such as ~/mercury.")
	}
	absolute("workspace", c.Workspace)
	absolute("bots.deliverables_dir", c.Bots.DeliverablesDir)
	for i, s := range c.Permissions.Scopes {
		if s.Path != c.Workspace {
			absolute(fmt.Sprintf("permissions.scopes.%d.path", i), s.Path)
		}
		if !s.Read && !s.Write {
			v.wrong(fmt.Sprintf("permissions.scopes.%d", i), "grants nothing", "Add read: true, write: true or both, or remove it.")
		}
	}
}

func (v *validator) servers() {
	for _, name := range slices.Sorted(maps.Keys(v.c.MCP.Servers)) {
		s, key := v.c.MCP.Servers[name], joinKey([]string{"mcp", "servers", name})
		if (len(s.Command) == 0) == (s.URL == "") {
			v.wrong(key, "needs either a command or a url", "Write one of the two.")
		}
		v.url(key+".url", s.URL, "http", "https")
	}
}

// Location returns the owner's zone; without one, the machine's.
func (c *Config) Location() (*time.Location, error) {
	if c.Timezone == "" {
		return time.Local, nil
	}
	if c.Timezone == "Local" {
		return nil, fmt.Errorf("load zone %q: not an IANA zone", c.Timezone)
	}
	return time.LoadLocation(c.Timezone)
}
