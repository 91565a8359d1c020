package intake

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/store"
)

// modeMax is the longest time that nothing is asked, chosen in a conversation.
const modeMax = 24 * time.Hour

// permissions lists what was granted, changes it, and chooses the mode of this
// conversation.
func (i *Intake) permissions(tx *engine.Tx, call Call) (Reply, error) {
	words := strings.Fields(call.Args)
	if len(words) == 0 {
		return listGrants(tx, call)
	}
	switch verb := strings.ToLower(words[0]); verb {
	case "show", "list":
		return listGrants(tx, call)
	case "revoke":
		if len(words) != 2 {
			return Reply{}, invalid("which grant should end?", "/permissions lists them; then /permissions revoke ID.")
		}
		if err := Revoke(tx, words[1], call.Actor); err != nil {
			return Reply{}, err
		}
		return Reply{Text: "Revoked. From now on it is asked again."}, nil
	case permission.ModeAsk, permission.ModeGuided, permission.ModeAllowAll:
		return i.setMode(tx, call, verb, strings.ToLower(strings.Join(words[1:], " ")))
	}
	return Reply{}, invalid(fmt.Sprintf("%q is not known here", words[0]), "Say show, revoke ID, ask, guided, or allow-all for 30m, 2h or this run.")
}

func invalid(text, help string) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: errors.New(text), Help: help}
}

func listGrants(tx *engine.Tx, call Call) (Reply, error) {
	grants, err := Grants(tx)
	if err != nil {
		return Reply{}, err
	}
	var b strings.Builder
	mode, err := modeLine(tx, call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	b.WriteString(orElse(mode, "The mode is the configured one."))
	if len(grants) == 0 {
		b.WriteString("\nNothing is granted beyond it.")
	}
	for _, g := range grants {
		fmt.Fprintf(&b, "\n%s  %s, %s", g.ID, g.Rule, GrantText(g))
	}
	return Reply{Text: b.String()}, nil
}

// Grants returns the lasting grants that hold now, oldest first.
func Grants(tx store.Tx) ([]store.Grant, error) {
	live, err := tx.Grants(time.Now())
	return slices.DeleteFunc(live, func(g store.Grant) bool { return g.Once }), err
}

// GrantText says whom a grant is for, who gave it, when, and until when.
func GrantText(g store.Grant) string {
	who := func(a mercury.Actor) string {
		if a.Name != "" {
			return a.Name
		}
		return string(a.Role)
	}
	text := fmt.Sprintf("for %s, given by %s on %s", who(g.Actor), who(g.GivenBy), g.CreatedAt.Local().Format("2006-01-02 15:04"))
	switch {
	case g.RunID != "":
		text += ", for " + g.RunID
	case !g.ExpiresAt.IsZero():
		text += ", until " + g.ExpiresAt.Local().Format("2006-01-02 15:04")
	default:
		text += ", until revoked"
	}
	if g.Via != "" {
		text += ", as answer to " + g.Via
	}
	return text
}

// Allow grants a rule to the owner, for a time or, with 0, until it is
// revoked.
func Allow(tx store.Tx, rule string, d time.Duration, by mercury.Actor) (store.Grant, error) {
	if err := permission.CheckRule(rule); err != nil {
		return store.Grant{}, err
	}
	g := store.Grant{ID: mercury.NewID("gr"), Actor: by, Rule: rule, GivenBy: by, CreatedAt: tx.Now()}
	if d > 0 {
		g.ExpiresAt = g.CreatedAt.Add(d)
	}
	if err := tx.InsertGrant(g); err != nil {
		return g, fmt.Errorf("store grant: %w", err)
	}
	return g, tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: by, Act: "grant", Subject: g.ID, Verdict: "allow", Rule: rule})
}

// Revoke ends a grant.
func Revoke(tx store.Tx, id string, by mercury.Actor) error {
	live, err := tx.Grants(time.Now())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(live, func(g store.Grant) bool { return g.ID == id })
	if i < 0 {
		return &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("no grant %s holds", id), Help: "mercury permissions show lists those that do."}
	}
	if err := tx.RevokeGrant(id, tx.Now()); err != nil {
		return err
	}
	return tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: by, Act: "revoke", Subject: id, Rule: live[i].Rule})
}

// setMode chooses how much is asked in this conversation, for a time, for the
// run in hand, or until changed. It counts for the run in hand too.
func (i *Intake) setMode(tx *engine.Tx, call Call, mode, span string) (Reply, error) {
	if mode == permission.ModeAllowAll && !Alone(call.Conversation, call.Actor) {
		return Reply{}, &mercury.Error{Kind: mercury.Denied, Err: errors.New("others can write here, so not everything is allowed"),
			Help: "Choose it in a conversation of your own."}
	}
	span = strings.TrimPrefix(span, "for ")
	var until time.Time
	onlyRun := span == "this run" || span == "run"
	switch {
	case onlyRun:
	case span == "" && mode == permission.ModeAllowAll:
		return Reply{}, invalid("until when?", "/permissions allow-all for 30m, 2h or this run. Without an end it is set in mercury.yaml: permissions.mode.")
	case span != "":
		d, err := time.ParseDuration(strings.ReplaceAll(span, " ", ""))
		if err != nil || d <= 0 || d > modeMax {
			return Reply{}, invalid(fmt.Sprintf("%q is no time up to 24h", span), "Such as 30m, 2h or this run.")
		}
		until = tx.Now().Add(d)
	}
	c, err := tx.LockConversation(call.Conversation)
	if err != nil {
		return Reply{}, err
	}
	run, err := workOf(tx, call.Conversation)
	live := err == nil && run.Actor.Role == mercury.Owner
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Reply{}, err
	}
	if onlyRun && !live {
		return Reply{}, &mercury.Error{Kind: mercury.Conflict, Err: errors.New("nothing of yours is running here"), Help: "Choose a time instead, such as 30m."}
	}
	if !onlyRun {
		c.Mode, c.ModeUntil = mode, until
		if err := tx.SaveConversation(c); err != nil {
			return Reply{}, err
		}
		if err := i.remember(tx, c.ID, until); err != nil {
			return Reply{}, err
		}
	}
	if live {
		run.Mandate.Mode, run.Mandate.ModeUntil = mode, until
		if err := tx.SaveRun(run); err != nil {
			return Reply{}, err
		}
	}
	err = tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: call.Actor, Act: "mode", Subject: call.Conversation,
		Verdict: mode, Detail: orElse(span, "until changed")})
	if err != nil {
		return Reply{}, err
	}
	if onlyRun {
		return Reply{Text: fmt.Sprintf("Mode %s for %s.%s", mode, run.ID, modeNote(mode))}, nil
	}
	line, err := modeLine(tx, call.Conversation)
	return Reply{Text: line + modeNote(mode)}, err
}

func modeNote(mode string) string {
	if mode != permission.ModeAllowAll {
		return ""
	}
	return " What is blocked for everyone stays blocked, and text from outside still makes some things ask, and so do commands in the background."
}

// Alone reports whether nobody but who can write in a conversation: one of
// this machine, or a private talk, whose place is the person.
func Alone(conversation string, who mercury.Actor) bool {
	_, place, _ := strings.Cut(conversation, "/")
	return mercury.ChannelOf(conversation) == "local" || who.ID != "" && place == who.ID
}

// modeLine says which mode was chosen in a conversation; empty if none holds.
func modeLine(tx store.Tx, conversation string) (string, error) {
	c, err := tx.Conversation(conversation)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil || c.Mode == "" || !c.ModeUntil.IsZero() && !tx.Now().Before(c.ModeUntil) {
		return "", err
	}
	if c.ModeUntil.IsZero() {
		return "Mode " + c.Mode + " in this conversation, until changed.", nil
	}
	return fmt.Sprintf("Mode %s in this conversation until %s; /permissions ask ends it.", c.Mode, c.ModeUntil.Local().Format("15:04")), nil
}
