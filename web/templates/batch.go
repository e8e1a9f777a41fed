package templates

import (
	"fmt"
	"strings"

	"github.com/qinglong/console/internal/text"
)

// BatchRow is one Run of a batch, before it is submitted.
type BatchRow struct {
	ID          ID
	Status      Status
	Task        string
	Name        string // of the Task, where it is known
	Created     Instant
	Retried     text.Text // how often, if it was
	Unsafe      bool      // the Task's author says that running it again is not safe
	Later       ID        // the newest Run of the Task since, if there is one
	LaterStatus Status
	Verdict     Status    // zero where nothing was judged
	Why         text.Text // it is left out, or refused
	Field       string    // of its box
	Value       string    // without one it cannot be chosen
	Checked     bool
}

// TaskNote is what is to be known of a Task that Runs of a batch are of.
type TaskNote struct {
	Task   string
	Runs   text.Text
	Times  text.Text // how often it would be executed, if more than once
	Note   string    // what its author says of running it again
	Unsafe bool      // and that it is not safe
}

// AskMany is the page before a verification for many Runs.
type AskMany struct {
	Page
	Name      text.Text
	Found     text.Text // why a verification that was there is no good
	Sentences []Sentence
	More      text.Text // not all that match are here
	Missing   text.Text // some of what was selected is not here
	Warning   text.Text // the provider cannot be reached
	Verify    []Pair
	Tasks     []TaskNote
	Rows      []BatchRow
	Out       []BatchRow // left out, each with why
	Reason    []Word     // that was given before
	Form      Form       // without an action when nothing can be done
	Back      Link
}

// PreviewMany is the page of a good verification for a batch: every Run, its verdict, and which of them to submit.
type PreviewMany struct {
	Page
	Name   text.Text
	Found  text.Text // what was wrong with what was sent before
	Reason []Word
	Proof  Proof
	Again  Form
	Since  []Sentence
	Tasks  []TaskNote
	Rows   []BatchRow
	Plans  []PlanOf
	Form   Form
}

// PlanOf is what some Runs of a batch would execute.
type PlanOf struct {
	Name  string
	Runs  text.Text // how many
	Pairs []Pair
}

// Batch is a batch for everybody who sees its Project: what was frozen, and what became of it.
type Batch struct {
	Page
	Name      text.Text
	Done      text.Text // what the submission that led here came to
	Sentences []Sentence
	Parts     []Part
	Summary   text.Text // the parts in words
	Pairs     []Pair
	Rows      []MadeRow
	Submit    Link // for its own user, while it is not submitted
	Again     Form // selects what has failed again
	Markdown  text.Text
}

// Part is one part of a whole, drawn as a length.
type Part struct {
	X, Width string
	Status   Status
	Count    string
}

// MadeRow is one Run of a batch and what was made of it.
type MadeRow struct {
	Source   ID
	Task     string
	Project  string
	Frozen   Status // the state in which it was selected
	Made     ID
	Status   Status
	Reason   text.Text
	Finished Instant
	Duration text.Text
	SoFar    string // seconds since it started, of one that has not ended
}

// Pick is how a Run of a list is chosen, if it may be.
type Pick struct {
	Value   string
	For     string // retry or stop
	Waits   bool   // for a retry: no newer Run of its family stands for it
	Checked bool
	Label   text.Text
}

// picked tells the boxes of one reader's rows from those of another's.
func picked(rows []RunRow) string {
	var marks strings.Builder
	for _, r := range rows {
		if r.Pick.Value != "" {
			fmt.Fprintf(&marks, "%s %s %t %t", r.Pick.Value, r.Pick.For, r.Pick.Waits, r.Pick.Checked)
		}
		marks.WriteByte(';')
	}
	return marks.String()
}

// Picking is what may be done to the Runs of a list that are chosen.
type Picking struct {
	Action   string // without one nothing may
	Retry    text.Text
	Stop     text.Text
	Failed   Link // chooses every one of the page that waits for a retry
	Matching Link // every failed one of the filter
	Most     string
}

// Incident is what went wrong, Task by Task.
type Incident struct {
	Sentences []Sentence
	Rows      []TroubleRow
	More      text.Text
	Empty     Empty
}

// TroubleRow is what went wrong with one Task.
type TroubleRow struct {
	Key     string
	Task    Link
	Project string
	Counts  []Part
	Total   string
	Retried text.Text
	First   FailureOf
	Newest  FailureOf
	Retry   Link // selects those that nobody has answered
}

// FailureOf is one Run that went wrong.
type FailureOf struct {
	ID     ID
	Status Status
	Reason text.Text
	At     Instant
}

// Holding is how a Trigger is held back, and let go on. Without an address that may not be done, or nothing is there to do.
type Holding struct {
	Done    text.Text // what the form that led here came to
	Pause   Form
	Resume  Form
	Now     text.Text // what resuming from now on means
	Once    text.Text // what catching up means; empty when nothing was missed
	Why     text.Text // it may not be done
	History []PastPause
}

// PastPause is one time in which the Trigger was held back.
type PastPause struct {
	At, Until Instant
	By, To    string
	Reason    []Word
	How       text.Text
}
