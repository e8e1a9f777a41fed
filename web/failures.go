package web

import (
	"net/url"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// How many of the newest failures the overview groups, and how many Tasks it shows of them.
const (
	failuresSeen  = 60
	failuresShown = 6
)

func newestOf(i run.Incident) (ids []uuid.UUID) {
	for _, t := range i.Tasks {
		ids = append(ids, t.Newest.RunID)
	}
	return ids
}

// failures are the latest by Task, each with what became of them since or may be done about them.
func (s *server) failures(v viewer, f overviewFacts) (rows []templates.FailureRow) {
	for _, t := range f.Failures.Tasks {
		row := templates.FailureRow{Key: t.ProjectID + "/" + t.TaskID, Project: t.ProjectID, Total: text.Count(t.Failures(), "1 failure", "%s failures"),
			Task:   templates.Link{Text: text.Data(shorten(visible(t.Newest.TaskName), listName)), URL: s.links.runs("group", "task", "project", t.ProjectID, "task", t.TaskID)},
			Newest: s.failureOf(t.Newest, v.nowMS), Answered: answeredOf(t), Answer: s.answerTo(v, f, t)}
		if x, ok := f.Retries[t.Newest.RunID]; ok {
			row.Retried, row.RetryStatus = shortID(x.ID, s.links.run(x.ID)), runStatuses[x.Status]
		}
		rows = append(rows, row)
	}
	return rows
}

// answeredOf says how many of a Task's failures were retried since.
func answeredOf(t run.Trouble) text.Text {
	switch n := t.Failures(); {
	case t.Retried == 0:
		return text.Of("not retried")
	case t.Retried < n:
		return text.Of("%s of %s retried", t.Retried, n)
	case n == 1:
		return text.Of("retried")
	}
	return text.Of("all retried")
}

// answerTo leads to a retry of what nobody has answered: of the newest, if that is all, else of those that were counted.
func (s *server) answerTo(v viewer, f overviewFacts, t run.Trouble) templates.Link {
	_, retried := f.Retries[t.Newest.RunID]
	switch open := t.Failed + t.TimedOut - t.Retried; {
	case open <= 0 || s.Runs == nil || s.StepUp == nil || !v.access.Decide(t.ProjectID, policy.RetryRun).Allowed:
		return templates.Link{}
	case open == 1 && !retried && t.Newest.Status != run.Lost:
		return templates.Link{Text: retrying.say.link, URL: s.links.deed(retrying, t.Newest.RunID)}
	}
	return s.everyFailure(url.Values{"task": {t.TaskID}, "since": {rfc3339(t.First.CreatedAtMS)}}, t.ProjectID, text.Of("Retry these…"))
}
