package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/tool/mcp"
)

// MCP lists the configured MCP servers and what is approved of them.
func (c *Client) MCP(ctx context.Context) (p Page[mcp.Catalogue], err error) {
	return p, c.do(ctx, http.MethodGet, "/api/mcp", nil, &p)
}

// TestMCP starts a server and compares what it has with what was approved.
func (c *Client) TestMCP(ctx context.Context, name string) (cat mcp.Catalogue, err error) {
	return cat, c.do(ctx, http.MethodPost, "/api/mcp/"+url.PathEscape(name)+"/test", nil, &cat)
}

// ApproveMCP lets models use what a was shown to hold.
func (c *Client) ApproveMCP(ctx context.Context, name string, a api.Approval) (cat mcp.Catalogue, err error) {
	return cat, c.do(ctx, http.MethodPost, "/api/mcp/"+url.PathEscape(name)+"/approve", a, &cat)
}
