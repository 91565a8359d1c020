package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/api"
)

// Usage says what the last days have used, by model, bot, conversation, day or
// purpose.
func (c *Client) Usage(ctx context.Context, by string, days int) (api.UsageReport, error) {
	return get[api.UsageReport](ctx, c, "/api/usage", url.Values{"by": {by}, "days": {strconv.Itoa(days)}})
}

// Prefix takes the next request of a conversation apart.
func (c *Client) Prefix(ctx context.Context, conversation string) (agent.Anatomy, error) {
	return get[agent.Anatomy](ctx, c, "/api/usage/prefix", url.Values{"conversation": {conversation}})
}
