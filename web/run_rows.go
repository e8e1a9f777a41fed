package web

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/internal/search"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

func (s *server) runRows(list []run.Summary, nowMS int64) []templates.RunRow {
	rows := make([]templates.RunRow, len(list))
	for i, r := range list {
		rows[i] = s.runRow(r, nowMS)
	}
	return rows
}

func (s *server) readBeside(ctx context.Context, projects []string, list []run.Summary, triggers ...search.Trigger) (scheduler.Beside, error) {
	var ended []uuid.UUID
	named := map[search.Trigger]bool{} // a list names the same one again and again
	for _, r := range list {
		if r.Status != run.Succeeded && (r.Status.Terminal() || r.Status == run.Lost) {
			ended = append(ended, r.ID)
		}
		if r.TriggerID != nil {
			named[search.Trigger{ProjectID: r.ProjectID, ID: *r.TriggerID}] = true
		}
	}
	return scheduler.ReadBeside(ctx, s.DB, projects, ended, slices.AppendSeq(triggers, maps.Keys(named)))
}

func (s *server) runRowsBeside(list []run.Summary, b scheduler.Beside, nowMS int64) []templates.RunRow {
	rows := s.runRows(list, nowMS)
	for i, r := range list {
		if x, ok := b.Answers[r.ID]; ok {
			rows[i].Answer, rows[i].AnswerStatus = shortID(x.ID, s.links.run(x.ID)), runStatuses[x.Status]
		}
		rows[i].Held = heldBack(b, r.ProjectID, r.TriggerID)
	}
	return rows
}

// heldBack says so of a Trigger that somebody holds back.
func heldBack(b scheduler.Beside, project string, trigger *string) templates.Status {
	if trigger == nil || !b.Paused[search.Trigger{ProjectID: project, ID: *trigger}] {
		return templates.Status{}
	}
	return scheduleStates[scheduler.Paused]
}

func (s *server) runRow(r run.Summary, nowMS int64) templates.RunRow {
	row := templates.RunRow{
		ID: shortID(r.ID, s.links.run(r.ID)), Status: runStatuses[r.Status], Reason: runReason(r).Map(brief),
		Task:    templates.Link{Text: text.Data(shorten(visible(r.TaskName), listName)), URL: s.links.runs("project", r.ProjectID, "task", r.TaskID)},
		Project: r.ProjectID, Created: instant(r.CreatedAtMS, nowMS), Duration: took(r.StartedAtMS, r.FinishedAtMS, nowMS),
		Origin: templates.Link{Text: text.Of("retry")},
	}
	if r.StartedAtMS != nil && r.FinishedAtMS == nil {
		row.SoFar = instant(*r.StartedAtMS, nowMS).Ago
	}
	if r.RetryOf != nil {
		source := shortID(*r.RetryOf, s.links.run(*r.RetryOf))
		row.Origin = templates.Link{Text: text.Of("retry of %s", source.Short), URL: source.URL}
	}
	if r.TriggerID != nil {
		row.Origin = templates.Link{Text: text.Data(*r.TriggerID), URL: s.links.schedule(r.ProjectID, *r.TriggerID)}
	}
	if late, ok := r.Late(); ok {
		row.Lateness = duration(late)
	}
	return row
}

// runReason says why a Run is in its state, as far as it says so itself. Words come before the exit code: a list has room for
// the beginning alone.
func runReason(r run.Summary) text.Text {
	var parts []text.Text
	if r.ErrorSummary != nil {
		parts = append(parts, text.Data(visible(*r.ErrorSummary)))
	}
	if r.ExitCode != nil && *r.ExitCode != 0 {
		parts = append(parts, text.Of("exit %s", strconv.Itoa(*r.ExitCode)))
	}
	if r.ErrorCode != nil && len(parts) == 0 {
		parts = append(parts, text.Data(strings.ReplaceAll(*r.ErrorCode, "_", " ")))
	}
	return text.Join(text.Data(" · "), parts...)
}

// brief is as much of s as a list has room for.
func brief(s string) string { return shorten(s, listText) }

// took words how long something has run: so far, when it has not finished.
func took(started, finished *int64, nowMS int64) text.Text {
	switch {
	case started == nil:
		return text.Text{}
	case finished == nil:
		return text.Of("%s so far", duration(max(nowMS-*started, 0)))
	}
	return duration(*finished - *started)
}
