package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/tool/mcp"
)

// Approval is what a person lets models use of an MCP server.
type Approval struct {
	Digest   string   `json:"digest" doc:"of what was shown by the test route; anything else is refused"`
	ReadOnly []string `json:"read_only,omitempty" doc:"the server's tools, by their own names, that only read and may run again after a crash"`
}

type approvalInput struct {
	ByID
	Body Approval
}

type catalogueOutput struct{ Body mcp.Catalogue }

// mcp registers the routes of MCP servers, where there is a client of them.
func (s *Server) mcp() {
	c := s.opts.MCP
	if c == nil {
		return
	}
	huma.Register(s.api, huma.Operation{OperationID: "list-mcp", Method: http.MethodGet, Path: "/api/mcp",
		Summary: "Configured MCP servers and what is approved of them. Starts none.", Tags: []string{"mcp"}},
		func(ctx context.Context, _ *struct{}) (*list[mcp.Catalogue], error) {
			items, err := c.List(ctx)
			if err != nil {
				return nil, s.failure("list MCP servers", err)
			}
			return page(items, ""), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "test-mcp", Method: http.MethodPost, Path: "/api/mcp/{id}/test",
		Summary: "Start an MCP server and compare what it has with what was approved.", Tags: []string{"mcp"}, Errors: []int{404, 503}},
		func(ctx context.Context, in *ByID) (*catalogueOutput, error) {
			cat, err := c.Test(ctx, in.ID)
			if err != nil {
				return nil, s.failure("test "+in.ID, err)
			}
			return &catalogueOutput{cat}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "approve-mcp", Method: http.MethodPost, Path: "/api/mcp/{id}/approve",
		Summary: "Let models use exactly what an MCP server was shown to have.", Tags: []string{"mcp"}, Errors: []int{404, 409, 503}},
		func(ctx context.Context, in *approvalInput) (*catalogueOutput, error) {
			cat, err := c.Approve(ctx, in.ID, in.Body.Digest, in.Body.ReadOnly)
			if err != nil {
				return nil, s.failure("approve "+in.ID, err)
			}
			return &catalogueOutput{cat}, nil
		})
}
