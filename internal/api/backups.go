package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Backup is one backup on the wire.
type Backup struct {
	Name      string    `json:"name"`
	Path      string    `json:"path" doc:"on the machine that Mercury runs on"`
	Kind      string    `json:"kind" doc:"by hand, scheduled, or before a migration"`
	CreatedAt time.Time `json:"created_at"`
	Bytes     int64     `json:"bytes"`
	Secrets   bool      `json:"secrets,omitempty" doc:"an encrypted part holds the secrets; said when it is made"`
	LeftOut   []string  `json:"left_out,omitempty" doc:"which secrets were taken out of texts; said when it is made"`
}

// HeldBack is what waits for a person's word in a home that was restored.
type HeldBack struct {
	Restored   time.Time  `json:"restored_at"`
	Made       string     `json:"made_at,omitempty" doc:"when the copy was made, where it says so"`
	Deliveries []Delivery `json:"deliveries" doc:"would be sent"`
	Runs       []Run      `json:"runs" doc:"would go on"`
	Waiting    []string   `json:"waiting,omitempty" doc:"what else would start, in words"`
}

// Held describes what is held back.
func Held(restored time.Time, made string, deliveries []mercury.Delivery, runs []mercury.Run, waiting []string) HeldBack {
	return HeldBack{Restored: restored, Made: made, Deliveries: mapSlice(deliveries, delivery), Waiting: waiting,
		Runs: mapSlice(runs, run)}
}

// Backups is what the house offers about copies of its home.
type Backups interface {
	// Create makes a backup; secrets are encrypted already, nil for none.
	Create(ctx context.Context, secrets []byte) (Backup, error)
	List(ctx context.Context) ([]Backup, error)
	// Held is what waits after a restore; nil when nothing was restored.
	Held(ctx context.Context) (*HeldBack, error)
	// Resume lets it go on, or with discard ends it.
	Resume(ctx context.Context, discard bool) (*HeldBack, error)
}

type createBackup struct {
	Body struct {
		Secrets []byte `json:"secrets,omitempty" doc:"the home's secrets, encrypted; without them none are in the backup" maxLength:"33554432"`
	}
}

type resumeBackup struct {
	Body struct {
		Discard bool `json:"discard,omitempty" doc:"end what was held instead"`
	}
}

// backups registers the routes of backups, where the house has them.
func (s *Server) backups() {
	b := s.opts.Backups
	if b == nil {
		return
	}
	huma.Register(s.api, huma.Operation{OperationID: "list-backups", Method: http.MethodGet, Path: "/api/backups",
		Summary: "Backups of this home, newest first.", Tags: []string{"backups"}},
		func(ctx context.Context, _ *struct{}) (*list[Backup], error) {
			items, err := b.List(ctx)
			if err != nil {
				return nil, s.failure("list backups", err)
			}
			return page(items, ""), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "create-backup", Method: http.MethodPost, Path: "/api/backups",
		Summary: "Make a backup while Mercury works. It is complete and checked when this returns.", Tags: []string{"backups"},
		DefaultStatus: http.StatusCreated, MaxBodyBytes: 64 << 20, Errors: []int{507}},
		func(ctx context.Context, in *createBackup) (*struct{ Body Backup }, error) {
			made, err := b.Create(ctx, in.Body.Secrets)
			if err != nil {
				return nil, s.failure("create a backup", err)
			}
			return &struct{ Body Backup }{made}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-held-back", Method: http.MethodGet, Path: "/api/backups/held",
		Summary: "What a restored home would send and go on with, until it is resumed.", Tags: []string{"backups"}, Errors: []int{404}},
		func(ctx context.Context, _ *struct{}) (*struct{ Body HeldBack }, error) {
			held, err := b.Held(ctx)
			if err != nil {
				return nil, s.failure("list what is held back", err)
			}
			if held == nil {
				return nil, huma.NewError(http.StatusNotFound, "nothing is held back: this home works")
			}
			return &struct{ Body HeldBack }{*held}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "resume-restored", Method: http.MethodPost, Path: "/api/backups/resume",
		Summary: "Let a restored home work: what was held goes on, or is ended.", Tags: []string{"backups"}, Errors: []int{409}},
		func(ctx context.Context, in *resumeBackup) (*struct{ Body HeldBack }, error) {
			held, err := b.Resume(ctx, in.Body.Discard)
			if err != nil {
				return nil, s.failure("resume", err)
			}
			return &struct{ Body HeldBack }{*held}, nil
		})
}
