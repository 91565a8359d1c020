package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/skill"
)

// SkillInstall asks for an installation.
type SkillInstall struct {
	Content string `json:"content" minLength:"1" doc:"the whole SKILL.md"`
	Hash    string `json:"hash,omitempty" doc:"of what was shown before; another content is refused. Empty: nothing is installed, and the answer shows what would be"`
	Anyway  bool   `json:"anyway,omitempty" doc:"install it though it looks hostile"`
}

// SkillPreview is what would be installed, or was.
type SkillPreview struct {
	Skill     skill.Skill     `json:"skill"`
	Hash      string          `json:"hash"`
	Findings  []skill.Finding `json:"findings,omitempty"`
	Installed bool            `json:"installed"`
}

// SkillInfo is a skill with where it stands.
type SkillInfo struct{ skill.Entry }

type (
	skillOutput   struct{ Body SkillInfo }
	previewOutput struct{ Body SkillPreview }
	installInput  struct{ Body SkillInstall }
)

// skills registers the routes of skills, where there are any.
func (s *Server) skills() {
	l := s.opts.Skills
	if l == nil {
		return
	}
	huma.Register(s.api, huma.Operation{OperationID: "list-skills", Method: http.MethodGet, Path: "/api/skills",
		Summary: "Skills by name, those that cannot be used included.", Tags: []string{"skills"}},
		func(context.Context, *struct{}) (*list[SkillInfo], error) {
			all, err := l.List()
			if err != nil {
				return nil, s.failure("list skills", err)
			}
			items := make([]SkillInfo, len(all))
			for i, e := range all {
				e.Body = ""
				items[i] = SkillInfo{e}
			}
			return page(items, ""), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-skill", Method: http.MethodGet, Path: "/api/skills/{id}",
		Summary: "One skill with what it says.", Tags: []string{"skills"}, Errors: []int{404, 409}},
		func(_ context.Context, in *ByID) (*skillOutput, error) {
			e, _, err := l.Find(in.ID)
			if err != nil {
				return nil, s.failure("show the skill", err)
			}
			return &skillOutput{SkillInfo{e}}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "install-skill", Method: http.MethodPost, Path: "/api/skills",
		Summary: "Look at a skill; with the hash of what was shown, install it.", Tags: []string{"skills"}, Errors: []int{403, 409, 422}},
		func(_ context.Context, in *installInput) (*previewOutput, error) {
			b, err := skill.FromText(in.Body.Content)
			if err != nil {
				return nil, s.failure("install the skill", err)
			}
			out := SkillPreview{Skill: b.Skill, Hash: b.Hash(), Findings: skill.Scan(b)}
			switch {
			case in.Body.Hash == "":
				return &previewOutput{out}, nil
			case in.Body.Hash != out.Hash:
				return nil, s.failure("install the skill", &mercury.Error{Kind: mercury.Conflict, Err: errors.New("this is not the skill that was shown"), Help: "Look at it again without a hash."})
			}
			if err := l.Admit(b, "HTTP", "owner", in.Body.Anyway); err != nil {
				return nil, s.failure("install the skill", err)
			}
			out.Installed = true
			return &previewOutput{out}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "remove-skill", Method: http.MethodDelete, Path: "/api/skills/{id}", DefaultStatus: http.StatusNoContent,
		Summary: "Remove a skill of the owner's folder; its last state is kept.", Tags: []string{"skills"}, Errors: []int{404, 409}},
		func(_ context.Context, in *ByID) (*struct{}, error) {
			if err := l.Remove(in.ID); err != nil {
				return nil, s.failure("remove the skill", err)
			}
			return nil, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "approve-skill", Method: http.MethodPost, Path: "/api/skills/{id}/approve", DefaultStatus: http.StatusNoContent,
		Summary: "Let a skill that was changed be used as it is now.", Tags: []string{"skills"}, Errors: []int{404, 422}},
		func(_ context.Context, in *ByID) (*struct{}, error) {
			if err := l.Approve(in.ID); err != nil {
				return nil, s.failure("approve the skill", err)
			}
			return nil, nil
		})
}
