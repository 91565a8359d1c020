package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/mercury-agent/mercury/internal/api"
)

// KeepHistory keeps a talk that took place elsewhere, and reports whether it
// was new.
func (c *Client) KeepHistory(ctx context.Context, conversation string, h api.History) (bool, error) {
	var kept api.Kept
	err := c.do(ctx, http.MethodPut, "/api/conversations/"+url.PathEscape(conversation)+"/history", h, &kept)
	return kept.Added, err
}
