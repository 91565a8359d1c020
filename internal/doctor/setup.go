package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
)

// configuration reads mercury.yaml and says all that is wrong with it.
func (e *exam) configuration() {
	src := config.Source{Home: e.Home, Getenv: e.Getenv}
	c, err := config.Load(src)
	if err == nil {
		e.config = c
		for _, w := range c.Warnings {
			if !strings.Contains(w, ".env") || !strings.Contains(w, "read") { // permissions are looked at apart
				e.add("configuration", Warning, w, "Correct it in the file it names.")
			}
		}
		e.add("configuration", Fine, e.Home.Config()+" is sound", "")
		return
	}
	var problems config.Problems
	if !errors.As(err, &problems) {
		e.add("configuration", Fault, err.Error(), cure(err, "Make mercury.yaml a readable file."))
	}
	for _, p := range problems {
		where := p.File
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		e.add("configuration", Fault, strings.TrimPrefix(where+": "+p.Message, ": "), cmp.Or(p.Help, "Correct it there; docs/configuration.md has every key."))
	}
	if c, degraded, err := config.LoadOrLastGood(src); err == nil && degraded != nil {
		e.config = c
		e.add("configuration", Note, "a start would use the copy of the last configuration that worked, "+e.Home.Good(), "")
	}
}

// providers looks whether a model could be asked, and whether channels have
// what they need. Asking costs something, so it is done only on request.
func (e *exam) providers(ctx context.Context) {
	c := e.config
	if c == nil {
		return
	}
	before := len(e.found)
	if err := c.Configured(); err != nil {
		level := Fault
		if e.status != nil { // a model that was found at the start answers
			level = Warning
		}
		e.add("model", level, err.Error(), mercury.HelpOf(err))
	}
	for _, model := range c.Fallbacks {
		name, _, _ := config.SplitModel(model)
		if _, err := c.Providers[name].APIKey.Value(); err != nil {
			e.add("model", Warning, "the fallback "+model+" has no key: "+err.Error(), mercury.HelpOf(err))
		}
	}
	secrets := map[string]config.Secret{}
	if t := c.Channels.Telegram; t != nil {
		secrets["telegram"] = t.Token
	}
	if d := c.Channels.Discord; d != nil {
		secrets["discord"] = d.Token
	}
	if s := c.Channels.Slack; s != nil {
		secrets["slack"] = s.BotToken
	}
	if r := c.Channels.Relay; r != nil {
		secrets["relay"] = r.Token
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if _, err := secrets[name].Value(); err != nil {
			e.add("channels", Fault, "the channel "+name+" has no token: "+err.Error(), mercury.HelpOf(err))
		}
	}
	if len(e.found) > before {
		return
	}
	if e.Live == nil {
		e.add("model", Fine, c.Model+" has what it needs; --live asks it", "")
		return
	}
	begun := time.Now()
	if err := e.Live(ctx, c); err != nil {
		e.add("model", Fault, c.Model+" does not answer: "+err.Error(), cure(err, "Look at the key and the address of its provider, or choose another model with `mercury setup`."))
		return
	}
	e.add("model", Fine, fmt.Sprintf("%s answers, in %s", c.Model, time.Since(begun).Round(time.Millisecond)), "")
}

// machine looks at the clock, the zone and the disk.
func (e *exam) machine() {
	now := time.Now()
	if now.Year() < 2025 {
		e.add("clock", Fault, "the clock of this machine says "+now.Format(time.RFC3339), "Set it, and let it be kept by a time service.")
	}
	zone := ""
	if e.config != nil && e.config.Timezone != "" {
		zone = e.config.Timezone
		if at, err := time.LoadLocation(zone); err != nil {
			e.add("clock", Fault, "the zone "+zone+" is not known here", "Set timezone in mercury.yaml to an IANA name such as Europe/Lisbon.")
		} else {
			now = now.In(at)
		}
	}
	where := "in the zone of this machine"
	if zone != "" {
		where = "in the zone " + zone
	}
	e.add("clock", Fine, "it is "+now.Format("2006-01-02 15:04 -07:00")+", "+where, "")
	free, all, err := e.room(e.Home.Dir())
	const mb = 1 << 20
	switch {
	case err != nil:
		e.add("disk", Note, "how much room there is cannot be found out: "+err.Error(), "")
	case free < 100*mb:
		e.add("disk", Fault, fmt.Sprintf("the disk of the home has %d MB left", free/mb), "Free some space: nothing new is taken once it is full.")
	case free < 1000*mb || all > 0 && free < all/50:
		e.add("disk", Warning, fmt.Sprintf("the disk of the home has %d MB left", free/mb), "Free some space; `mercury doctor --storage` shows what Mercury uses.")
	default:
		e.add("disk", Fine, fmt.Sprintf("%d MB are free", free/mb), "")
	}
}

// port looks who listens where this home's Mercury would.
func (e *exam) port() {
	if e.config == nil {
		return
	}
	addr := e.config.Web.Listen
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return
	}
	conn.Close()
	who := "another program"
	if otherMercury(addr) {
		who = "another Mercury, of another home,"
	}
	e.add("port", Warning, who+" listens on "+addr, "Stop it, or set web.listen in mercury.yaml to a free port such as 127.0.0.1:6175.")
}

// otherMercury asks whoever listens at addr how a Mercury is asked.
func otherMercury(addr string) bool {
	c := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + addr + "/api/health")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	var health struct{ Status string }
	b, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	return err == nil && json.Unmarshal(b, &health) == nil && slices.Contains([]string{"ok", "degraded", "draining"}, health.Status)
}

// fence looks at what holds the commands that a model runs.
func (e *exam) fence(ctx context.Context) {
	var r sandbox.Report
	switch {
	case e.status != nil && e.status.Fence != "":
		r = sandbox.Report{Level: sandbox.Level(e.status.Fence), Missing: e.status.FenceMissing, Cure: e.status.FenceCure, Veil: sandbox.Veil(strings.TrimPrefix(e.status.Veil, "none"))}
	case e.Fence != nil:
		r = e.Fence(ctx)
	default:
		return
	}
	switch {
	case r.Level == sandbox.None || r.Level == "":
		e.add("sandbox", Warning, "no fence holds commands here: "+r.Missing+"; each one asks, and bots and helpers run none", cmp.Or(r.Cure, "docs/sandbox.md says what each system can have."))
	case r.Missing != "":
		e.add("sandbox", Note, fmt.Sprintf("%s holds commands; it could be stronger: %s", r.Level, r.Missing), r.Cure)
	default:
		e.add("sandbox", Fine, string(r.Level)+" holds commands", "")
	}
	if r.Veil == "" {
		e.add("veil", Note, "nothing here keeps commands that you allow from Mercury's own folder", "Look twice before you allow one; docs/sandbox.md says what an approval does not hold.")
	}
}
