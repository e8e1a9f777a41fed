// Package runmgmt is what an operator may do: preview and make a retry of a Run, ask one to stop, and pause a Trigger.
//
// # One transaction
//
// A retry is one SERIALIZABLE transaction in a fixed order: the policy fence over the locked Project, exact replay, the
// proof by the clock read then, the source, the Task, the quota; then the proof is consumed and Run, Attempt, Events and
// the allowed audit row are written. Whatever fails rolls everything back, the consumption of the proof included.
//
// # Exact replay
//
// The same mutation, sent again by the same user with the same content, is answered with the Run it made, however far
// that Run has got and however old the proof is, and writes nothing. With anything changed it is a conflict.
//
// # Every refusal is on record
//
// A refused attempt has exactly one denied audit row. If that row cannot be written the answer is [ErrUnavailable].
package runmgmt

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// The bounds of retrying.
const (
	Quota        = 64               // new manual retries by one user in one Project …
	QuotaWindow  = 60 * time.Second // … within this time
	MaxWords     = 500              // runes of a reason
	deadline     = 5 * time.Second  // of one request, repetitions included
	lockPatience = 2 * time.Second  // for the advisory lock, which only saves conflicts
)

// Reason is why an attempt was refused. The words are stable: they are in the audit and choose the page.
type Reason string

// The reasons.
const (
	Invalid               Reason = "invalid"
	StepUpRequired        Reason = "step_up_required"       // there is no proof, or it is spent, revoked or expired
	AuthenticationChanged Reason = "authentication_changed" // the proof is of another user, session, browser, action or Run
	Forbidden             Reason = "forbidden"
	NotFound              Reason = "not_found"
	AuthorizationChanged  Reason = "authorization_changed" // it was allowed when the request came in, and is not now
	SourceChanged         Reason = "source_changed"
	SourceNotTerminal     Reason = "source_not_terminal"
	SourceNotRetryable    Reason = "source_not_retryable"
	TaskDisabled          Reason = "task_disabled"
	PlanChanged           Reason = "plan_changed"
	MutationConflict      Reason = "mutation_conflict"
	RetriedMeanwhile      Reason = "retried_meanwhile"
	RateLimited           Reason = "rate_limited"
	NotStoppable          Reason = "not_stoppable" // the Run has ended, or was asked to stop before
	RunsRefused           Reason = "runs_refused"  // of a batch: each of its Runs that was refused says why
	PauseChanged          Reason = "pause_changed" // another pause holds the Trigger than the page showed
)

var reasons = []Reason{Invalid, StepUpRequired, AuthenticationChanged, Forbidden, NotFound, AuthorizationChanged, SourceChanged, SourceNotTerminal,
	SourceNotRetryable, TaskDisabled, PlanChanged, MutationConflict, RetriedMeanwhile, RateLimited, NotStoppable, RunsRefused, PauseChanged}

// A Refusal is an attempt that was refused and wrote nothing. It is an error.
type Refusal struct {
	Reason     Reason
	Detail     text.Text     // one sentence for the operator: what was found
	Proof      policy.Reason // what was wrong with the proof, if that was it
	Source     *run.Source   // the fresh facts, if the reader may see them
	Retry      *uuid.UUID    // of RetriedMeanwhile and MutationConflict: the other Run
	RetryAfter time.Duration // of RateLimited
	Runs       []RunRefusal  // of RunsRefused: those that were refused; the others may be submitted without them
	Words      string        // the reason given before a verification that is no longer good, if it was this browser's own
}

// RunRefusal is why one Run of a batch was refused.
type RunRefusal struct {
	Run      uuid.UUID
	Mutation uuid.UUID
	Refusal  *Refusal
}

func (r *Refusal) Error() string { return string(r.Reason) + ": " + r.Detail.String() }

// ErrUnavailable reports that the database could not be worked with in time, and nothing was done.
var ErrUnavailable = errors.New("run management is unavailable")

// ErrOutcomeUnknown reports that it is not known whether the mutation happened. Sending the same form again is safe.
var ErrOutcomeUnknown = errors.New("the outcome of the mutation is unknown")

// Config is everything a Manager needs.
type Config struct {
	Pool    *pgxpool.Pool // of role ql3_run_manager
	Metrics *Metrics
	Log     *slog.Logger
	Hints   *pg.Hints // told of every mutation; may be nil
}

// Manager is the authority over Runs of one replica.
type Manager struct {
	Config
	projects sync.Map // project id to *sync.Mutex: one retry of a Project at a time in this process
}

// New returns a Manager.
func New(c Config) *Manager { return &Manager{Config: c} }

// Who is the person behind a request, as the session says, and the proof the browser shows.
type Who struct {
	Actor      policy.Actor // Type is policy.ByUser
	SessionID  uuid.UUID
	ProofID    uuid.UUID
	CookieHash []byte // SHA-256 of the proof's cookie
}

func (w Who) user() uuid.UUID { return *w.Actor.UserID }

func (w Who) claim(action policy.Permission, project string, subject uuid.UUID) policy.Claim {
	return policy.Claim{UserID: w.user(), SessionID: w.SessionID, CookieHash: w.CookieHash, Action: action, ProjectID: project, Subject: subject}
}

// lockProject serialises this process's mutations of a Project. It saves conflicts; correctness never rests on it.
func (m *Manager) lockProject(project string) (unlock func()) {
	mutex, _ := m.projects.LoadOrStore(project, &sync.Mutex{})
	mutex.(*sync.Mutex).Lock()
	return mutex.(*sync.Mutex).Unlock
}

// Metrics is what the replica counts of mutations.
type Metrics struct {
	done     *prometheus.CounterVec
	refusals *prometheus.CounterVec
}

// NewMetrics registers the metrics with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		done:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ql3_runmgmt_mutations_total", Help: "Mutations of Runs, by action and whether they were new or an exact replay."}, []string{"action", "result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ql3_runmgmt_refusals_total", Help: "Refused mutations of Runs, by action and reason."}, []string{"action", "reason"}),
	}
	r.MustRegister(m.done, m.refusals)
	for _, action := range []policy.Permission{policy.RetryRun, policy.StopRun, policy.PauseTrigger, actionResume} {
		for _, result := range []string{"new", "replayed"} {
			m.done.WithLabelValues(string(action), result) // a counter that is there before it counts can be alerted on
		}
		for _, reason := range reasons {
			m.refusals.WithLabelValues(string(action), string(reason))
		}
	}
	return m
}

func refuse(reason Reason, found text.Text) *Refusal { return &Refusal{Reason: reason, Detail: found} }
