package client

import (
	"context"
	"net/http"

	"github.com/mercury-agent/mercury/internal/api"
)

// Backups lists the backups of the home, newest first.
func (c *Client) Backups(ctx context.Context) (Page[api.Backup], error) {
	return get[Page[api.Backup]](ctx, c, "/api/backups", nil)
}

// CreateBackup makes a backup. secrets are encrypted already; nil: none.
func (c *Client) CreateBackup(ctx context.Context, secrets []byte) (api.Backup, error) {
	var out api.Backup
	body := map[string][]byte{}
	if secrets != nil {
		body["secrets"] = secrets
	}
	err := c.do(ctx, http.MethodPost, "/api/backups", body, &out)
	return out, err
}

// HeldBack lists what a restored home would send and go on with. A home that
// was not restored gives an *Error with status 404.
func (c *Client) HeldBack(ctx context.Context) (api.HeldBack, error) {
	return get[api.HeldBack](ctx, c, "/api/backups/held", nil)
}

// ResumeRestored lets a restored home work.
func (c *Client) ResumeRestored(ctx context.Context, discard bool) (api.HeldBack, error) {
	var out api.HeldBack
	err := c.do(ctx, http.MethodPost, "/api/backups/resume", map[string]bool{"discard": discard}, &out)
	return out, err
}
