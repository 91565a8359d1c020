package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/memory"
)

// Memories lists what is remembered.
func (c *Client) Memories(ctx context.Context, q url.Values) (Page[memory.Fact], error) {
	return get[Page[memory.Fact]](ctx, c, "/api/memory", q)
}

// MemoryOverview says how much is remembered in a scope.
func (c *Client) MemoryOverview(ctx context.Context, scope string) (memory.Overview, error) {
	return get[memory.Overview](ctx, c, "/api/memory/overview", url.Values{"scope": {scope}})
}

// Memory returns one memory with what contradicts it.
func (c *Client) Memory(ctx context.Context, id string) (api.MemoryDetail, error) {
	return get[api.MemoryDetail](ctx, c, "/api/memory/"+url.PathEscape(id), nil)
}

// MemoryWhy lists what stood before the last answer of a conversation.
func (c *Client) MemoryWhy(ctx context.Context, conversation string) (Page[memory.Fact], error) {
	return get[Page[memory.Fact]](ctx, c, "/api/memory/why", url.Values{"conversation": {conversation}})
}

// People lists the people known in a scope.
func (c *Client) People(ctx context.Context, scope string) (Page[api.Person], error) {
	return get[Page[api.Person]](ctx, c, "/api/memory/people", url.Values{"scope": {scope}})
}

// AddMemory remembers something by hand.
func (c *Client) AddMemory(ctx context.Context, scope, kind, summary, detail string) (api.MemoryAdded, error) {
	var out api.MemoryAdded
	err := c.do(ctx, http.MethodPost, "/api/memory?"+url.Values{"scope": {scope}}.Encode(),
		map[string]string{"kind": kind, "summary": summary, "detail": detail}, &out)
	return out, err
}

// ChangeMemory does what verb says, "forget" or "restore", to a memory.
func (c *Client) ChangeMemory(ctx context.Context, id, verb string) (api.MemoryDetail, error) {
	var out api.MemoryDetail
	err := c.do(ctx, http.MethodPost, "/api/memory/"+url.PathEscape(id)+"/"+verb, struct{}{}, &out)
	return out, err
}

// PauseLearning stops learning in a scope, or goes on with it.
func (c *Client) PauseLearning(ctx context.Context, scope string, on bool) error {
	verb := "resume"
	if on {
		verb = "pause"
	}
	res, err := c.request(ctx, http.MethodPost, "/api/memory/"+verb+"?"+url.Values{"scope": {scope}}.Encode(), struct{}{})
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// ClearMemories deletes all memories of a scope for good.
func (c *Client) ClearMemories(ctx context.Context, scope string) (int, error) {
	var out struct {
		Deleted int `json:"deleted"`
	}
	err := c.do(ctx, http.MethodDelete, "/api/memory?"+url.Values{"scope": {scope}, "confirm": {"yes"}}.Encode(), nil, &out)
	return out.Deleted, err
}

// Imported says what became of memories that were imported.
type Imported struct {
	Added  int `json:"added"`
	Merged int `json:"merged"`
	Other  int `json:"other"`
}

// ImportMemories remembers facts, at most 500 at once.
func (c *Client) ImportMemories(ctx context.Context, scope string, facts []memory.Fact) (Imported, error) {
	var out Imported
	err := c.do(ctx, http.MethodPost, "/api/memory/import?"+url.Values{"scope": {scope}}.Encode(), map[string]any{"items": facts}, &out)
	return out, err
}

// Search finds entries of all conversations by words, newest first.
func (c *Client) Search(ctx context.Context, text, conversation string, limit int) (Page[api.SearchHit], error) {
	q := url.Values{"q": {text}, "limit": {strconv.Itoa(limit)}}
	if conversation != "" {
		q.Set("conversation", conversation)
	}
	return get[Page[api.SearchHit]](ctx, c, "/api/search", q)
}
