package file

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed cd.md
var cdUsage string

//go:embed scope.md
var scopeUsage string

type cdInput struct {
	Path string `json:"path"`
}

// goTo is the tool cd. Where a conversation is stands in the store, so that it
// is still there after a restart.
func (f *Files) goTo() tool.Tool {
	return tool.Define(tool.Definition[cdInput]{
		Name: "cd", Usage: cdUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in cdInput) ([]mercury.Access, error) {
			return f.access(c, mercury.ReadPath, in.Path)
		},
		Run: func(_ context.Context, c tool.Call, in cdInput) (tool.Output, error) {
			real, err := f.folderAt(c, in.Path)
			if err != nil {
				return tool.Output{}, err
			}
			return tool.Output{Text: "Now in " + real + ".", Commit: func(tx store.Tx) error {
				return tx.SetMeta(tool.FolderKey(c.ConversationID), real)
			}}, nil
		},
	})
}

// folderAt is the real path of a folder that a call may read.
func (f *Files) folderAt(c tool.Call, path string) (string, error) {
	v := NewView(f.opts, c)
	real, err := v.admit(mercury.ReadPath, path)
	if err != nil {
		return "", err
	}
	dir, err := v.dir(mercury.ReadPath, real, false, real)
	if err != nil {
		return "", explain(path, err)
	}
	return real, dir.Close()
}

type scopeInput struct {
	Path  string `json:"path"`
	Write bool   `json:"write,omitempty"`
}

// scope is the tool approve_scope. What it asks for is a change of Mercury's
// own settings, so a person decides; then the rights hold until revoked.
func (f *Files) scope() tool.Tool {
	return tool.Define(tool.Definition[scopeInput]{
		Name: "approve_scope", Usage: scopeUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in scopeInput) ([]mercury.Access, error) {
			a, _, err := f.scopeAccess(c, in)
			return []mercury.Access{a}, err
		},
		Show: func(_ context.Context, c tool.Call, in scopeInput) string {
			a, _, err := f.scopeAccess(c, in)
			if err != nil {
				return ""
			}
			return fmt.Sprintf("Let Mercury %s\n\nIt holds until you revoke it: mercury permissions revoke", a.Detail)
		},
		Run: func(_ context.Context, c tool.Call, in scopeInput) (tool.Output, error) {
			a, dir, err := f.scopeAccess(c, in)
			if err != nil {
				return tool.Output{}, err
			}
			if len(c.Granted) != 1 || c.Granted[0].Kind != a.Kind || c.Granted[0].Target != a.Target {
				return tool.Output{}, denied(in.Path, errMoved)
			}
			return tool.Output{Text: "You may now " + a.Detail + ".", Commit: func(tx store.Tx) error { return widen(tx, c, dir, in.Write) }}, nil
		},
	})
}

func (f *Files) scopeAccess(c tool.Call, in scopeInput) (_ mercury.Access, dir string, _ error) {
	v := NewView(f.opts, c)
	a, err := v.Access(mercury.ReadPath, in.Path)
	if err != nil {
		return a, "", err
	}
	if filepath.Dir(a.Target) == a.Target {
		return a, "", invalid("the whole file system cannot be opened", "Name the folder that is needed.")
	}
	for _, h := range f.opts.Hidden {
		if top, err := resolve(h); err == nil && within(a.Target, top) {
			return a, "", denied(in.Path, errHidden)
		}
	}
	verb := "read"
	if in.Write {
		verb = "read and write"
	}
	return mercury.Access{Kind: mercury.Settings, Target: "scope " + verb + " " + a.Target,
		Detail: fmt.Sprintf("%s everything in %s", verb, a.Target)}, a.Target, nil
}

// widen stores the rights. The answer to the call's question names the giver.
func widen(tx store.Tx, c tool.Call, dir string, write bool) error {
	given, via := c.Mandate.Actor, c.RunID // where nobody was asked
	asked, err := tx.RunQuestions(c.RunID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for _, q := range asked {
		if q.CallID == c.ID && q.State == mercury.QuestionAnswered {
			given, via = q.AnsweredBy, q.ID
		}
	}
	kinds := []mercury.AccessKind{mercury.ReadPath}
	if write {
		kinds = append(kinds, mercury.WritePath)
	}
	for _, kind := range kinds {
		g := store.Grant{ID: mercury.NewID("gr"), Actor: c.Mandate.Actor, GivenBy: given, Via: via, CreatedAt: tx.Now(),
			Rule: string(kind) + ":" + dir + string(filepath.Separator) + "**"}
		if err := tx.InsertGrant(g); err != nil {
			return fmt.Errorf("store grant: %w", err)
		}
		err := tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: given, Act: "grant", Subject: g.ID, Verdict: "allow", Rule: g.Rule})
		if err != nil {
			return err
		}
	}
	return nil
}
