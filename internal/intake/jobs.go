package intake

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Jobs is where commands run in the background.
type Jobs interface {
	// Stop ends a job of this process and returns at once; false if it has
	// none such.
	Stop(id, reason string) bool
	// Output is the end of what a job has printed.
	Output(j store.Job) string
}

// background lists the commands that run behind this conversation, shows what
// one prints, stops it, or lets it outlive the conversation.
func (i *Intake) background(tx *engine.Tx, call Call) (Reply, error) {
	words := strings.Fields(call.Args)
	if len(words) == 0 {
		rows, err := tx.Jobs(call.Conversation)
		if err != nil {
			return Reply{}, err
		}
		return Reply{Text: JobsText(rows)}, nil
	}
	if len(words) != 2 || i.opts.Jobs == nil {
		return Reply{}, invalid("which one, and what about it?", "/bg lists them; then /bg output ID, /bg stop ID or /bg detach ID.")
	}
	j, err := tx.Job(words[1])
	if errors.Is(err, store.ErrNotFound) || err == nil && j.ConversationID != call.Conversation {
		return Reply{}, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no background command %s here", words[1])}
	}
	if err != nil {
		return Reply{}, err
	}
	switch strings.ToLower(words[0]) {
	case "output":
		return Reply{Text: jobText(j) + "\n" + i.opts.Jobs.Output(j)}, nil
	case "stop":
		if err := i.StopJob(tx, j, call.Actor); err != nil {
			return Reply{}, err
		}
		return Reply{Text: j.ID + " is being stopped."}, nil
	case "detach":
		if j.State != store.JobRunning {
			return Reply{Text: jobText(j)}, nil
		}
		j.Detached = true
		return Reply{Text: j.ID + " goes on when this conversation is begun afresh, until Mercury stops."}, tx.SaveJob(j)
	}
	return Reply{}, invalid(fmt.Sprintf("%q is not known here", words[0]), "Say output, stop or detach, and an ID.")
}

// StopJob ends a background command on somebody's word.
func (i *Intake) StopJob(tx store.Tx, j store.Job, by mercury.Actor) error {
	if j.State != store.JobRunning {
		return &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("it does not run: %s", jobText(j))}
	}
	who := orElse(by.Name, string(by.Role))
	if i.opts.Jobs == nil || !i.opts.Jobs.Stop(j.ID, who+" stopped it") {
		return &mercury.Error{Kind: mercury.Conflict, Err: errors.New("another process runs it"), Help: "Ask the Mercury of that machine."}
	}
	return tx.Audit(store.AuditRow{ID: mercury.NewID("au"), At: tx.Now(), Actor: by, Act: "stop", Subject: j.ID, Detail: preview(j.Command, 200)})
}

// endJobs ends what runs behind a conversation that is over, unless a person
// detached it.
func (i *Intake) endJobs(tx store.Tx, conversation, reason string) error {
	rows, err := tx.Jobs(conversation)
	if err != nil || i.opts.Jobs == nil {
		return err
	}
	for _, j := range rows {
		if j.State == store.JobRunning && !j.Detached {
			i.opts.Jobs.Stop(j.ID, reason)
		}
	}
	return nil
}

// JobsText is one line for each job.
func JobsText(rows []store.Job) string {
	if len(rows) == 0 {
		return "Nothing runs in the background."
	}
	var lines []string
	for _, j := range rows {
		lines = append(lines, jobText(j))
	}
	return strings.Join(lines, "\n")
}

func jobText(j store.Job) string {
	how := "runs since " + j.StartedAt.Local().Format("2006-01-02 15:04:05")
	switch j.State {
	case store.JobDone:
		how = fmt.Sprintf("ended with exit code %d", j.ExitCode)
	case store.JobStopped:
		how = "was ended: " + j.Reason
	}
	if j.Detached {
		how += ", detached"
	}
	return fmt.Sprintf("%s  %s: %s", j.ID, how, preview(j.Command, 100))
}
