package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// UsageReport is what a span of days has used.
type UsageReport struct {
	budget.Report
	Forecast *budget.Forecast `json:"forecast,omitempty" doc:"of this month, once half a day of it is over"`
}

// Cap is one cap of the budget, and how much of it is used.
type Cap struct {
	Period  string  `json:"period" doc:"day or month"`
	Unit    string  `json:"unit" doc:"tokens, or a currency"`
	Used    float64 `json:"used"`
	Cap     float64 `json:"cap"`
	Percent int     `json:"percent"`
	Unknown bool    `json:"price_unknown,omitempty" doc:"some of it has no known price and is not counted"`
}

// BudgetState is the budget at one moment.
type BudgetState struct {
	Caps   []Cap `json:"caps"`
	Lifted bool  `json:"lifted" doc:"nothing stops for it until midnight"`
}

type usageInput struct {
	By   string `query:"by" enum:"model,bot,conversation,day,purpose" default:"model"`
	Days int    `query:"days" minimum:"1" maximum:"366" default:"30" doc:"how many, today included"`
}

type budgetInput struct {
	Body struct {
		Do string `json:"do" enum:"once,today,hold,reset" doc:"once: the next run that finds it used up goes on to its end; today: nothing stops until midnight; hold: end both; reset: count anew from now on"`
	}
}

func (s *Server) usage() {
	if s.opts.Budget == nil {
		return
	}
	tags := []string{"usage"}
	huma.Register(s.api, huma.Operation{OperationID: "get-usage", Method: http.MethodGet, Path: "/api/usage",
		Summary: "What was used, and what it has cost.", Tags: tags}, s.usageRoute)
	huma.Register(s.api, huma.Operation{OperationID: "get-prefix", Method: http.MethodGet, Path: "/api/usage/prefix",
		Summary: "What the next request of a conversation consists of.", Tags: tags, Errors: []int{404}},
		func(ctx context.Context, in *struct {
			Conversation string `query:"conversation" default:"local/default"`
		}) (*struct{ Body agent.Anatomy }, error) {
			out := &struct{ Body agent.Anatomy }{}
			var err error
			out.Body, err = s.opts.Anatomy(ctx, mercury.LocalConversation(in.Conversation))
			return out, s.failed("take a request apart", err)
		})
	huma.Register(s.api, huma.Operation{OperationID: "get-budget", Method: http.MethodGet, Path: "/api/budget",
		Summary: "What a day and a month may cost, and how much is used.", Tags: tags},
		func(ctx context.Context, _ *struct{}) (*struct{ Body BudgetState }, error) {
			out := &struct{ Body BudgetState }{}
			err := s.engine.View(ctx, func(tx store.Tx) (err error) {
				out.Body, err = budgetState(s.opts.Budget.Book(), tx)
				return err
			})
			return out, s.failed("look at the budget", err)
		})
	huma.Register(s.api, huma.Operation{OperationID: "change-budget", Method: http.MethodPost, Path: "/api/budget",
		Summary: "Let work go on beyond the budget, or hold it again.", Tags: tags}, s.changeBudget)
}

func (s *Server) usageRoute(ctx context.Context, in *usageInput) (*struct{ Body UsageReport }, error) {
	out := &struct{ Body UsageReport }{}
	err := s.engine.View(ctx, func(tx store.Tx) error {
		book, now := s.opts.Budget.Book(), tx.Now()
		_, to, _ := book.Span(budget.Day, now)
		from, _, _ := book.Span(budget.Day, now.AddDate(0, 0, 1-in.Days))
		var err error
		if out.Body.Report, err = book.Report(tx, in.By, from, to); err != nil {
			return err
		}
		ahead, ok, err := book.Ahead(tx, now)
		if ok {
			out.Body.Forecast = &ahead
		}
		return err
	})
	if out.Body.Lines == nil {
		out.Body.Lines = []budget.Line{}
	}
	return out, s.failed("sum usage", err)
}

func (s *Server) changeBudget(ctx context.Context, in *budgetInput) (*struct{ Body BudgetState }, error) {
	out := &struct{ Body BudgetState }{}
	book := s.opts.Budget.Book()
	do := map[string]func(store.Tx) error{"once": book.Once, "today": book.LiftToday, "hold": book.Hold, "reset": book.Reset}[in.Body.Do]
	err := s.engine.Update(ctx, "budget", func(tx *engine.Tx) (err error) {
		if err := do(tx); err != nil {
			return err
		}
		if err := tx.Audit(store.AuditRow{Actor: mercury.Actor{Role: mercury.Owner, Channel: "local"}, Act: "budget", Detail: in.Body.Do}); err != nil {
			return err
		}
		out.Body, err = budgetState(book, tx)
		return err
	})
	return out, s.failed("change the budget", err)
}

func budgetState(book budget.Book, tx store.Tx) (out BudgetState, err error) {
	states, err := book.States(tx)
	if err != nil {
		return out, err
	}
	out.Caps = []Cap{}
	for _, st := range states {
		out.Caps = append(out.Caps, Cap{Period: string(st.Period), Unit: st.Unit(), Used: st.Used, Cap: st.Cap, Percent: st.Percent(), Unknown: st.Unknown})
	}
	out.Lifted, err = book.Lifted(tx)
	return out, err
}
