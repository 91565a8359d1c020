package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

// summary shows what else is decided, in one line, and changes it where the
// person wants.
func (w *wizard) summary(ctx context.Context) error {
	for {
		owner := w.c.Owner
		if owner == "" {
			owner = "not said"
		}
		budget := "no cap"
		if n := w.c.Budget.DailyTokens; n > 0 {
			budget = thousands(n)
		}
		w.say(fmt.Sprintf("\nname %s · owner %s · workspace %s · budget %s tokens a day", w.c.Name, owner, w.c.Workspace, budget))
		line, err := w.ask(ctx, "Enter keeps this; name=Nova, budget=500000 … changes it:", tui.Open)
		if err != nil || line == "" {
			return err
		}
		settings, err := Changes(line)
		if err == nil {
			err = w.keep(settings...)
		}
		if err != nil {
			w.complain(err)
		}
	}
}

func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// summaryKeys are the keys of mercury.yaml behind the words of the summary.
var summaryKeys = map[string]string{"name": "name", "owner": "owner", "workspace": "workspace", "budget": "budget.daily_tokens"}

// Changes reads a line like "name=Nova, budget=500,000". A part without = goes
// on the value before it.
func Changes(line string) ([]config.Setting, error) {
	var settings []config.Setting
	for part := range strings.SplitSeq(line, ",") {
		word, value, found := strings.Cut(part, "=")
		key, known := summaryKeys[strings.ToLower(strings.TrimSpace(word))]
		switch {
		case found && known:
			settings = append(settings, config.Setting{Key: key, Value: strings.TrimSpace(value)})
		case !found && len(settings) > 0:
			settings[len(settings)-1].Value += "," + part
		default:
			return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q changes nothing here", strings.TrimSpace(part)),
				Help: "Write name=…, owner=…, workspace=… or budget=…; everything else is in mercury.yaml."}
		}
	}
	for i, s := range settings {
		if s.Key == "budget.daily_tokens" {
			settings[i].Value = strings.NewReplacer(",", "", ".", "", " ", "", "_", "").Replace(s.Value)
		}
	}
	return settings, nil
}

// login offers that Mercury starts by itself. What the service cannot see, a
// key that is only in this shell's environment, is kept in .env first.
func (w *wizard) login(ctx context.Context) error {
	if w.o.Login == nil {
		return nil
	}
	if installed, err := w.o.Login.Installed(ctx); err != nil || installed {
		return nil // there is nothing to offer
	}
	line, err := w.ask(ctx, "Start Mercury by itself when you log in? [y/N]", tui.Open)
	if err != nil || !yes(line, false) {
		return err
	}
	if err := w.keepKey(); err != nil {
		return err
	}
	if err := w.o.Login.Install(ctx); err != nil {
		w.complain(fmt.Errorf("it will not start by itself: %w", err))
		return nil
	}
	w.say("It does.")
	return nil
}

// keepKey copies the key of the model that answers from the process's
// environment into .env of the home.
func (w *wizard) keepKey() error {
	provider, _, _ := config.SplitModel(w.c.Model)
	e, err := w.c.Explain("providers." + provider + ".api_key")
	if err != nil {
		return nil // a keyless one
	}
	name, ok := strings.CutPrefix(e.Written, "${")
	name = strings.TrimSuffix(name, "}")
	value := w.environment(name)
	if !ok || value == "" {
		return nil
	}
	if err := config.SetVariable(w.o.Source.Home, name, value); err != nil {
		return err
	}
	w.say(fmt.Sprintf("The key in %s is kept in %s: a service does not see this shell's variables.", name, w.o.Source.Home.Env()))
	return nil
}

// Answers are those of a set-up without questions. An empty field takes what
// is proposed, and what is configured stays.
type Answers struct {
	Model     string // empty: the one configured, else the first that is found
	Timezone  string // a zone's name or a city
	Name      string
	Owner     string
	Workspace string
	Budget    string // tokens a day
	Telegram  bool   // take the token from TELEGRAM_BOT_TOKEN
	KeepKey   bool   // copy the model's key from the environment into .env
	Login     bool
}

// Quiet sets up without a question and may be repeated: what is as it should
// be is left as it is. The model is tried before it is written.
func Quiet(ctx context.Context, o Options, a Answers) error {
	w := &wizard{o: o}
	if err := w.load(); err != nil {
		return err
	}
	if err := w.quietModel(ctx, a.Model); err != nil {
		return err
	}
	var settings []config.Setting
	for _, s := range []config.Setting{{Key: "name", Value: a.Name}, {Key: "owner", Value: a.Owner}, {Key: "workspace", Value: a.Workspace}, {Key: "budget.daily_tokens", Value: a.Budget}} {
		if s.Value != "" {
			settings = append(settings, s)
		}
	}
	if a.Timezone != "" {
		found := Zones(a.Timezone, time.Now())
		if len(found) != 1 {
			return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%q names no one zone", a.Timezone), Help: "Write a zone like Europe/Lisbon or a city."}
		}
		settings = append(settings, config.Setting{Key: "timezone", Value: found[0]})
	}
	if len(settings) > 0 {
		if err := w.keep(settings...); err != nil {
			return err
		}
	}
	if a.Telegram {
		token := w.environment(telegramVariable)
		if token == "" {
			return &mercury.Error{Kind: mercury.Setup, Err: errors.New(telegramVariable + " is not set"), Help: "Put the bot's token there, then try again."}
		}
		if err := w.keepTelegram(ctx, token); err != nil {
			return err
		}
		if !o.Telegram {
			w.say("The token is kept. This version does not talk on Telegram itself; a relay can.")
		}
	}
	if a.KeepKey || a.Login {
		if err := w.keepKey(); err != nil {
			return err
		}
	}
	if a.Login {
		if o.Login == nil {
			return &mercury.Error{Kind: mercury.Setup, Err: errors.New("this version cannot start Mercury at login"), Help: "Leave --login out."}
		}
		if err := o.Login.Install(ctx); err != nil {
			return err
		}
	}
	w.done.forget(o.Source.Home)
	w.say(fmt.Sprintf("%s answers (%s).", w.c.Model, o.Source.Home.Config()))
	return nil
}

// quietModel tries the model that is named, configured or found, and writes it
// where it is not written yet.
func (w *wizard) quietModel(ctx context.Context, model string) error {
	written := ""
	if e, err := w.c.Explain("model"); err == nil && e.Origin.Source == config.FromFile {
		written = w.c.Model
	}
	if model == "" {
		model = written
	}
	if model == "" {
		found := config.Discover(ctx, w.o.Source)
		if len(found) == 0 {
			return w.c.Configured()
		}
		model = found[0].Model
	}
	if err := w.try(ctx, w.o.Source, model); err != nil {
		return err
	}
	if model == written {
		return nil
	}
	return w.keep(config.Setting{Key: "model", Value: model})
}
