package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Whose is the scope of a memory route. It is exported for the library that
// reads its tags.
type Whose struct {
	Scope string `query:"scope" default:"owner" doc:"whose memories: owner, person/CHANNEL/ID, place/CONVERSATION or bot/ID"`
}

type memoriesInput struct {
	Whose
	Paging
	Query string   `query:"q" doc:"only those with these words, the best match first"`
	Kind  []string `query:"kind" doc:"only of these kinds"`
	State []string `query:"state" doc:"live (default), superseded or forgotten"`
}

// MemoryDetail is a memory with what contradicts it.
type MemoryDetail struct {
	memory.Fact
	Against *memory.Fact `json:"against,omitempty" doc:"the memory that contradicts it"`
}

// MemoryAdded is what became of a memory that was added.
type MemoryAdded struct {
	Outcome string       `json:"outcome" doc:"added, merged, won or lost"`
	Memory  memory.Fact  `json:"memory"`
	Against *memory.Fact `json:"against,omitempty" doc:"the memory it contradicts"`
}

type addMemoryInput struct {
	Whose
	Body struct {
		Kind    string `json:"kind,omitempty" doc:"default preference"`
		Summary string `json:"summary" minLength:"1" maxLength:"4000"`
		Detail  string `json:"detail,omitempty" maxLength:"20000"`
	}
}

type importInput struct {
	Whose
	Body struct {
		Items []memory.Fact `json:"items" maxItems:"500"`
	}
}

type clearInput struct {
	Whose
	Confirm string `query:"confirm" required:"true" enum:"yes" doc:"yes: delete them for good"`
}

type historyInput struct {
	Query        string `query:"q" required:"true" minLength:"1" maxLength:"2000"`
	Conversation string `query:"conversation"`
	Limit        int    `query:"limit" minimum:"1" maximum:"200" default:"20"`
}

// SearchHit is an entry that a search found, with its conversation.
type SearchHit struct {
	Conversation string `json:"conversation_id"`
	Entry
}

type oneMemory struct{ Body MemoryDetail }

func (s *Server) memory() {
	tags := []string{"memory"}
	huma.Register(s.api, huma.Operation{OperationID: "list-memories", Method: http.MethodGet, Path: "/api/memory",
		Summary: "What is remembered, newest first, or by words.", Tags: tags}, s.listMemories)
	huma.Register(s.api, huma.Operation{OperationID: "memory-overview", Method: http.MethodGet, Path: "/api/memory/overview",
		Summary: "How much is remembered, and what is always at hand.", Tags: tags},
		func(ctx context.Context, in *Whose) (*struct{ Body memory.Overview }, error) {
			out := &struct{ Body memory.Overview }{}
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				out.Body, err = memory.Look(tx, in.Scope)
				return err
			})
			return out, s.failed("memory overview", err)
		})
	huma.Register(s.api, huma.Operation{OperationID: "list-people", Method: http.MethodGet, Path: "/api/memory/people",
		Summary: "The people known through memories of relationships.", Tags: tags},
		func(ctx context.Context, in *Whose) (*list[Person], error) {
			var found []memory.Person
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				found, err = memory.People(tx, in.Scope)
				return err
			})
			if err != nil {
				return nil, s.failure("list people", err)
			}
			return page(mapSlice(found, wirePerson), ""), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "memory-why", Method: http.MethodGet, Path: "/api/memory/why",
		Summary: "What stood before the last answer of a conversation.", Tags: tags},
		func(ctx context.Context, in *struct {
			Conversation string `query:"conversation" default:"local/default"`
		}) (*list[memory.Fact], error) {
			var found []store.Memory
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				found, err = intake.Why(tx, mercury.LocalConversation(in.Conversation))
				return err
			})
			if err != nil {
				return nil, s.failure("memory why", err)
			}
			return page(mapSlice(found, memory.Shown), ""), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-memory", Method: http.MethodGet, Path: "/api/memory/{id}",
		Summary: "One memory, with what it rests on and what contradicts it.", Tags: tags, Errors: []int{404}},
		func(ctx context.Context, in *ByID) (*oneMemory, error) {
			out := &oneMemory{}
			err := s.engine.View(ctx, func(tx store.Tx) error {
				m, err := memory.Get(tx, "", in.ID)
				if err != nil {
					return err
				}
				rival, err := memory.Rival(tx, m)
				out.Body = MemoryDetail{memory.Shown(m), fact(rival)}
				return err
			})
			return out, s.failed("memory "+in.ID, err)
		})
	huma.Register(s.api, huma.Operation{OperationID: "add-memory", Method: http.MethodPost, Path: "/api/memory",
		Summary: "Remember something by hand.", Tags: tags, Errors: []int{422}},
		func(ctx context.Context, in *addMemoryInput) (*struct{ Body MemoryAdded }, error) {
			out := &struct{ Body MemoryAdded }{}
			err := s.engine.Update(ctx, "memory.add", func(tx *engine.Tx) error {
				r, err := intake.AddMemory(tx, in.Scope, in.Body.Kind, in.Body.Summary, in.Body.Detail, owner)
				out.Body = MemoryAdded{r.Outcome, memory.Shown(r.Memory), fact(r.Rival)}
				return err
			})
			return out, s.failed("remember", err)
		})
	huma.Register(s.api, huma.Operation{OperationID: "import-memories", Method: http.MethodPost, Path: "/api/memory/import",
		Summary: "Remember many, as exported. What is known already is merged.", Tags: tags, Errors: []int{422}}, s.importMemories)
	s.memoryAct("forget", "Take a memory out of use. It can be restored.", memory.Forget)
	s.memoryAct("restore", "Bring a forgotten or superseded memory back.", memory.Restore)
	for verb, on := range map[string]bool{"pause": true, "resume": false} {
		huma.Register(s.api, huma.Operation{OperationID: verb + "-learning", Method: http.MethodPost, Path: "/api/memory/" + verb,
			Summary: "Stop learning, or go on with it.", Tags: tags},
			func(ctx context.Context, in *Whose) (*struct{}, error) {
				return nil, s.failed(verb+" learning", s.engine.Update(ctx, "memory.pause", func(tx *engine.Tx) error { return memory.Pause(tx, in.Scope, on, owner) }))
			})
	}
	huma.Register(s.api, huma.Operation{OperationID: "clear-memories", Method: http.MethodDelete, Path: "/api/memory",
		Summary: "Delete all memories of a scope for good.", Tags: tags},
		func(ctx context.Context, in *clearInput) (*struct {
			Body struct {
				Deleted int `json:"deleted"`
			}
		}, error) {
			out := &struct {
				Body struct {
					Deleted int `json:"deleted"`
				}
			}{}
			err := s.engine.Update(ctx, "memory.clear", func(tx *engine.Tx) (err error) {
				out.Body.Deleted, err = memory.Clear(tx, in.Scope, owner)
				return err
			})
			return out, s.failed("clear memories", err)
		})
	huma.Register(s.api, huma.Operation{OperationID: "search-history", Method: http.MethodGet, Path: "/api/search",
		Summary: "What was said in any conversation, by words, newest first.", Tags: []string{"conversations"}}, s.searchHistory)
}

// failed is failure for a route whose error may be nil.
func (s *Server) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return s.failure(what, err)
}

// Person is a person on the wire.
type Person struct {
	Name     string        `json:"name"`
	Role     string        `json:"role,omitempty"`
	Memories []memory.Fact `json:"memories"`
}

func wirePerson(p memory.Person) Person {
	return Person{p.Name, p.Role, mapSlice(p.Memories, memory.Shown)}
}

func fact(m *store.Memory) *memory.Fact {
	if m == nil {
		return nil
	}
	f := memory.Shown(*m)
	return &f
}

func (s *Server) listMemories(ctx context.Context, in *memoriesInput) (*list[memory.Fact], error) {
	var found []store.Memory
	next := ""
	err := s.engine.View(ctx, func(tx store.Tx) (err error) {
		if in.Query == "" {
			found, next, err = tx.Memories(store.MemoryFilter{Scope: in.Scope, Kinds: in.Kind, States: in.State, Page: in.page()})
			return err
		}
		hits, err := memory.Find(tx, in.Scope, in.Query, in.Limit)
		for _, h := range hits {
			found = append(found, h.Memory)
		}
		return err
	})
	if err != nil {
		return nil, s.failure("list memories", err)
	}
	return page(mapSlice(found, memory.Shown), next), nil
}

func (s *Server) importMemories(ctx context.Context, in *importInput) (*struct {
	Body struct {
		Added  int `json:"added"`
		Merged int `json:"merged"`
		Other  int `json:"other" doc:"contradicted by what is known, or not worth keeping"`
	}
}, error) {
	out := &struct {
		Body struct {
			Added  int `json:"added"`
			Merged int `json:"merged"`
			Other  int `json:"other" doc:"contradicted by what is known, or not worth keeping"`
		}
	}{}
	err := s.engine.Update(ctx, "memory.import", func(tx *engine.Tx) error {
		out.Body.Added, out.Body.Merged, out.Body.Other = 0, 0, 0
		for _, f := range in.Body.Items {
			if f.State != "" && f.State != store.MemoryLive || f.Kind == memory.Reflection {
				continue // it was not in use there either
			}
			r, err := memory.Remember(tx, in.Scope, f.Candidate(owner))
			if err != nil {
				return err
			}
			switch r.Outcome {
			case memory.Added, memory.Won:
				out.Body.Added++
			case memory.Merged:
				out.Body.Merged++
			default:
				out.Body.Other++
			}
		}
		return nil
	})
	return out, s.failed("import memories", err)
}

// memoryAct registers a change of one memory.
func (s *Server) memoryAct(verb, summary string, do func(store.Tx, string, string, mercury.Actor) (store.Memory, error)) {
	huma.Register(s.api, huma.Operation{OperationID: verb + "-memory", Method: http.MethodPost, Path: "/api/memory/{id}/" + verb,
		Summary: summary, Tags: []string{"memory"}, Errors: []int{404, 409}},
		func(ctx context.Context, in *ByID) (*oneMemory, error) {
			out := &oneMemory{}
			err := s.engine.Update(ctx, "memory."+verb, func(tx *engine.Tx) error {
				m, err := do(tx, "", in.ID, owner)
				out.Body = MemoryDetail{Fact: memory.Shown(m)}
				return err
			})
			return out, s.failed(verb+" "+in.ID, err)
		})
}

func (s *Server) searchHistory(ctx context.Context, in *historyInput) (*list[SearchHit], error) {
	for more := true; more; {
		err := s.engine.Update(ctx, "search.index", func(tx *engine.Tx) (err error) {
			more, err = tx.IndexEntries(memory.IndexBatch)
			return err
		})
		if err != nil {
			return nil, s.failure("search", err)
		}
	}
	conversation := in.Conversation
	if conversation != "" {
		conversation = mercury.LocalConversation(conversation)
	}
	var found []mercury.Entry
	err := s.engine.View(ctx, func(tx store.Tx) (err error) {
		found, err = memory.History(tx, memory.Reader{Actor: owner}, in.Query, conversation, in.Limit)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, s.failure("search", err)
	}
	return page(mapSlice(found, func(e mercury.Entry) SearchHit { return SearchHit{e.ConversationID, entry(e)} }), ""), nil
}
