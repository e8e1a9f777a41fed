// Package checker accounts for every occurrence that was expected, from the durable facts alone, and says what is wrong
// with them. It shares nothing with the product but the names of its tables: what it asks is plain SQL, and when
// something is due it computes by dividing.
//
// # What must hold
//
// An instant is expected of a Trigger when it is a multiple of the Trigger's period, after the creation of the revision
// that was in force and up to that of the next, the revision and its Task were enabled, and the Project was not
// archived. Each expected instant has one Run of that revision, or one row of the account that says why not, and never
// both; or it is not decided yet, which the cursor says. There is no Run of any other instant, and none that came
// while somebody held the Trigger back.
//
// What whoever asked for changes remembers ([Record]) agrees with the rows: every change that was answered is there,
// once, at a time between the question and the answer, and nothing else is.
package checker

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Rules are all that [Check] holds the facts to.
var Rules = []string{
	Duplicate, Unaccounted, Undecided, Both, TwoReasons, Unexpected, NoInstant, Miscounted, Early, Replaced, InPause, InArchive,
	HeldBack, NoCatchUp, TooLate, NoSkip, NoPause,
	EventGap, NotAdmitted, NotOneAttempt, AttemptDiffers, BackInTime, WrongID, ProofTwice, ProofUnmarked, ProofUnused, MutationTwice,
	OverQuota, SourceNotOver, RetryUnaudited, StopUnaudited, PauseUnaudited, AuditOfNothing, LapsedClaim, NoResumption,
	NotRemembered, OutOfWindow, NotDone, DoneAnyway, DeniedRows,
}

// A Question is what is asked of the facts.
type Question struct {
	UpToMS  int64   // the last moment whose instants must be decided, by the database clock
	GraceMS int64   // how late an occurrence of the policy skip may be and still be admitted
	Record  *Record // nil: nobody remembers anything
}

// A Report is what became of the expected instants, and everything that is wrong.
type Report struct {
	Expected, Admitted, Accounted, NotYet, Duplicates, Unaccounted int
	Wrong                                                          []Wrong
}

// Wrong is one rule that is broken.
type Wrong struct {
	Rule     string
	Count    int
	Examples []string // the first of them
}

// examples bounds what is said of one broken rule.
const examples = 8

func (w Wrong) String() string {
	return fmt.Sprintf("%s (%d): %s", w.Rule, w.Count, strings.Join(w.Examples, "; "))
}

// Broken names the rules that are broken.
func (r Report) Broken() (rules []string) {
	for _, w := range r.Wrong {
		rules = append(rules, w.Rule)
	}
	return rules
}

// wrong adds a breach of rule.
func (r *Report) wrong(rule, format string, args ...any) {
	for i := range r.Wrong {
		if w := &r.Wrong[i]; w.Rule == rule {
			if w.Count++; len(w.Examples) < examples {
				w.Examples = append(w.Examples, fmt.Sprintf(format, args...))
			}
			return
		}
	}
	r.Wrong = append(r.Wrong, Wrong{Rule: rule, Count: 1, Examples: []string{fmt.Sprintf(format, args...)}})
}

// Check reads everything in the snapshot of tx, in which nothing may be going on any more: no replica works.
func Check(ctx context.Context, tx pgx.Tx, q Question) (Report, error) {
	var r Report
	triggers, err := readTriggers(ctx, tx)
	if err != nil {
		return r, fmt.Errorf("read the history: %w", err)
	}
	if q.Record != nil {
		q.Record.compare(triggers, &r)
	}
	for _, t := range triggers {
		t.judge(q, &r)
	}
	if err := readLedger(ctx, tx, &r); err != nil {
		return r, fmt.Errorf("read the ledger: %w", err)
	}
	if q.Record != nil {
		if err := q.Record.compareForms(ctx, tx, &r); err != nil {
			return r, fmt.Errorf("read what became of the forms: %w", err)
		}
	}
	return r, nil
}
