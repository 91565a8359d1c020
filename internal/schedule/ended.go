package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// noticeAfter is how many failures in a row are told with a way out.
const noticeAfter = 2

// ended writes what became of an occurrence, in the commit that ends its run.
func (s *Schedules) ended(tx *engine.Tx, run mercury.Run) error {
	o, err := tx.RunOccurrence(run.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the occurrence of %s: %w", run.ID, err)
	}
	sch, err := tx.LockSchedule(o.ScheduleID)
	if err != nil {
		return fmt.Errorf("find schedule %s: %w", o.ScheduleID, err)
	}
	var res result
	if len(run.Result) > 0 {
		if err := json.Unmarshal(run.Result, &res); err != nil {
			return fmt.Errorf("read how %s ended: %w", run.ID, err)
		}
	}
	o.EndedAt = tx.Now()
	switch run.State {
	case mercury.RunDone:
		o.Outcome, sch.Fails = "done", 0
		if res.Skipped != "" {
			o.State, o.Reason, o.Outcome = store.OccurrenceSkipped, res.Skipped, ""
		}
		if o.Rehearsal && res.Skipped == "" {
			if err := rehearsed(tx, &sch, run); err != nil {
				return err
			}
		}
	case mercury.RunFailed, mercury.RunDead:
		o.Outcome, o.Reason = "failed", run.Error
		if run.ErrorCode == codeInterrupted {
			o.State = store.OccurrenceInterrupted
		}
		if !o.Rehearsal {
			sch.Fails++
		}
	default:
		o.State, o.Reason = store.OccurrenceInterrupted, "it was stopped"
		if run.Cancel != "" {
			o.Reason = run.Cancel
		}
	}
	if err := tx.SaveOccurrence(o); err != nil {
		return err
	}
	if err := tx.SaveSchedule(sch); err != nil {
		return err
	}
	return s.tell(tx, sch, o, run)
}

// tell writes into the conversation of the destination what was sent there,
// and after two failures in a row says how to end them.
func (s *Schedules) tell(tx *engine.Tx, sch store.Schedule, o store.Occurrence, run mercury.Run) error {
	switch {
	case o.Outcome == "done":
		answer, found, err := answerOf(tx, run)
		if err != nil || !found {
			return err
		}
		if Acknowledgement(answer.Text) {
			o.Outcome = "silent"
			return tx.SaveOccurrence(o)
		}
		return note(tx, sch, run.ID, answer.Text, answer.Taint)
	case o.Outcome != "failed":
		return nil
	}
	if err := note(tx, sch, run.ID, sch.Name+": "+run.Error, nil); err != nil {
		return err
	}
	if sch.Fails != noticeAfter {
		return nil
	}
	return say(tx, sch, "failing:"+o.ID, mercury.NoticeDelivery, fmt.Sprintf(
		"%q failed twice in a row: %s\nIt goes on. To look: /schedules show %s. To stop it: /schedules pause %s. To try it now: /schedules run %s.",
		sch.Name, run.Error, sch.ID, sch.ID, sch.ID))
}

// answerOf is the last assistant entry of a run.
func answerOf(tx *engine.Tx, run mercury.Run) (mercury.Entry, bool, error) {
	entries, err := tx.EntriesBefore(run.ConversationID, 0, 20)
	if err != nil {
		return mercury.Entry{}, false, err
	}
	for _, e := range slices.Backward(entries) {
		if e.Kind == mercury.AssistantEntry && e.RunID == run.ID && !e.Hidden {
			return e, e.Text != "", nil
		}
	}
	return mercury.Entry{}, false, nil
}

// rehearsed makes what a person granted in a rehearsal the schedule's whole
// permission: it may do that from now on, and nothing else that is asked.
func rehearsed(tx *engine.Tx, sch *store.Schedule, run mercury.Run) error {
	sch.Rehearsed, sch.Mandate.Mode = true, "ask"
	asked, err := tx.RunQuestions(run.ID)
	if err != nil {
		return err
	}
	for _, q := range asked {
		// "Always" was stored with the answer.
		yes := slices.Contains([]string{mercury.AnswerOnce, mercury.AnswerRun, mercury.AnswerHour}, q.Answer)
		if q.Kind != "approval" || q.State != mercury.QuestionAnswered || !yes || q.Always == "" {
			continue
		}
		err := tx.InsertGrant(store.Grant{ID: mercury.NewID("gr"), Actor: run.Actor, Rule: q.Always, GivenBy: q.AnsweredBy, Via: q.ID, CreatedAt: tx.Now()})
		if err != nil {
			return fmt.Errorf("keep what the rehearsal was granted: %w", err)
		}
	}
	return nil
}
