package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/schedule"
)

// Draft is a schedule to add, and the conversation it is made in.
type Draft struct {
	schedule.Draft
	Conversation string `json:"conversation,omitempty"`
}

func schedulePath(id string) string { return "/api/schedules/" + url.PathEscape(id) }

// Schedules lists what starts by itself, newest first.
func (c *Client) Schedules(ctx context.Context, q url.Values) (Page[api.Schedule], error) {
	return get[Page[api.Schedule]](ctx, c, "/api/schedules", q)
}

// Schedule returns one, by its id or its name.
func (c *Client) Schedule(ctx context.Context, id string) (api.Schedule, error) {
	return get[api.Schedule](ctx, c, schedulePath(id), nil)
}

// AddSchedule keeps a new one.
func (c *Client) AddSchedule(ctx context.Context, d Draft) (s api.Schedule, err error) {
	return s, c.do(ctx, http.MethodPost, "/api/schedules", d, &s)
}

// EditSchedule changes what d names.
func (c *Client) EditSchedule(ctx context.Context, id string, d schedule.Draft) (s api.Schedule, err error) {
	return s, c.do(ctx, http.MethodPatch, schedulePath(id), d, &s)
}

// PauseSchedule keeps it from starting.
func (c *Client) PauseSchedule(ctx context.Context, id string) (s api.Schedule, err error) {
	return s, c.do(ctx, http.MethodPost, schedulePath(id)+"/pause", nil, &s)
}

// ResumeSchedule lets it start again.
func (c *Client) ResumeSchedule(ctx context.Context, id string) (s api.Schedule, err error) {
	return s, c.do(ctx, http.MethodPost, schedulePath(id)+"/resume", nil, &s)
}

// RemoveSchedule ends it.
func (c *Client) RemoveSchedule(ctx context.Context, id string) (s api.Schedule, err error) {
	return s, c.do(ctx, http.MethodDelete, schedulePath(id), nil, &s)
}

// RunSchedule starts an occurrence now, or rehearses one.
func (c *Client) RunSchedule(ctx context.Context, id string, rehearse bool) (o api.Occurrence, err error) {
	return o, c.do(ctx, http.MethodPost, schedulePath(id)+"/run", map[string]bool{"rehearse": rehearse}, &o)
}

// Occurrences lists what became of each time, newest first; of all schedules
// with the id "-".
func (c *Client) Occurrences(ctx context.Context, id string, q url.Values) (Page[api.Occurrence], error) {
	return get[Page[api.Occurrence]](ctx, c, schedulePath(id)+"/occurrences", q)
}
