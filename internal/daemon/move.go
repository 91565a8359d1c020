package daemon

import (
	"context"

	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/config"
)

// addressVariable is where the address of a shared database is kept: it has a
// password in it, which mercury.yaml should not have.
const addressVariable = "MERCURY_DATABASE_URL"

// MoveDatabase moves the database of a home to a URL of PostgreSQL or, empty,
// to SQLite in the home, and makes its configuration say so.
func MoveDatabase(ctx context.Context, home config.Home, to string) (backup.Moved, error) {
	src := config.Source{Home: home}
	c, err := config.Load(src)
	if err != nil {
		return backup.Moved{}, err
	}
	from, err := c.Database.URL.Value()
	if err != nil {
		return backup.Moved{}, err
	}
	node, err := nodeID(home.Dir())
	if err != nil {
		return backup.Moved{}, err
	}
	moved, err := backup.Move(ctx, backup.Moving{Home: home.Dir(), Node: node, From: from, To: to, Switch: func() error {
		if to == "" {
			_, err := config.Set(src, "database.url", "")
			return err
		}
		if err := config.SetVariable(home, addressVariable, to); err != nil {
			return err
		}
		_, err := config.Set(src, "database.url", "${"+addressVariable+"}")
		return err
	}})
	vault := newSecrets(c, "")
	vault.Add("the database's address", to)
	return moved, vault.hideIn(err)
}
