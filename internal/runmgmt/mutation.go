package runmgmt

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// mutation is a submitted form: one action on one Run of a Project, or on Runs chosen of a batch.
type mutation struct {
	who     Who
	deed    deed
	project string
	batch   uuid.UUID // uuid.Nil of the form of one Run
	items   []item
	words   string
}

// item is one Run of a mutation, as the operator saw it.
type item struct {
	mutation uuid.UUID // its own, derived from the batch if there is one
	run      uuid.UUID
	status   run.Status
	version  int64
	digest   string     // of the previewed plan
	newest   *uuid.UUID // the newest retry of the Run that the preview showed
}

// deed is what one action does to one Run: all in which retrying and stopping differ.
type deed struct {
	action policy.Permission
	ask    text.Text // for a reason that is missing
	quota  bool      // it counts against the quota
	// never says why the action is impossible for a Run in that shape, whatever an operator saw; nil if it is not.
	never func(run.Source) *Refusal
	// changed says why the Run is not what was verified, or not what the preview showed; nil if it is.
	changed func(item, policy.Item, run.Source) *Refusal
	// find returns what item did before, if it was sent before with the same content, or run.ErrNotFound.
	find func(context.Context, pg.Querier, mutation, item) (Made, error)
	// write does it, in the transaction that has checked everything.
	write func(context.Context, pgx.Tx, mutation, item, grant, run.Source) (Made, error)
}

var deeds = map[policy.Permission]deed{policy.RetryRun: retrying, policy.StopRun: stopping}

// grant is by what a mutation is allowed.
type grant struct {
	fence fence
	proof policy.Proof
	atMS  int64 // the database clock over the locked Runs
}

// Made is the Run that a mutation made, or asked to stop.
type Made struct {
	Source    uuid.UUID // the Run it was about
	RunID     uuid.UUID
	AttemptID uuid.UUID // of a retry
	AtMS      int64
	Replayed  bool // it was made before, by the same mutation
}

func result(replayed bool) string {
	if replayed {
		return "replayed"
	}
	return "new"
}

// single submits the form of one Run.
func (m *Manager) single(ctx context.Context, x mutation) (Made, error) {
	i := x.items[0]
	if i.mutation == uuid.Nil || i.run == uuid.Nil || x.project == "" {
		return Made{}, m.refused(ctx, x.deed.action, x.target(i), refuse(Invalid, text.Of("The form is incomplete; open the Run and begin again.")))
	}
	if err := checkWords(x.words, x.deed.ask); err != nil {
		return Made{}, m.refused(ctx, x.deed.action, x.target(i), err)
	}
	var made []Made
	err := m.inOrder(ctx, x.project, func(ctx context.Context, tx pgx.Tx) (err error) {
		made, err = x.commit(ctx, tx)
		return err
	})
	if err != nil {
		return Made{}, m.refused(ctx, x.deed.action, x.target(i), err)
	}
	m.Metrics.done.WithLabelValues(string(x.deed.action), result(made[0].Replayed)).Inc()
	return made[0], nil
}

// inOrder takes the locks that save conflicts, one mutation of a Project after the other, and runs the one transaction
// under them.
func (m *Manager) inOrder(ctx context.Context, project string, fn func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	defer m.lockProject(project)()
	defer m.Hints.Changed() // whether it happened or nobody knows
	return pg.WithAdvisoryLock(ctx, m.Pool, lockKey(project), lockPatience, func(b pg.Beginner) error {
		return pg.InTx(ctx, b, func(tx pgx.Tx) error { return fn(ctx, tx) })
	})
}

// lockKey is the advisory lock of a Project's mutations, in a space of its own.
func lockKey(project string) int64 {
	h := fnv.New64a()
	h.Write([]byte("ql3:run-management:" + project))
	return int64(h.Sum64())
}

// commit is the transaction of one Run, in its order.
func (x mutation) commit(ctx context.Context, tx pgx.Tx) ([]Made, error) {
	f, err := takeFence(ctx, tx, x.project, x.who.user(), x.deed.action)
	if err != nil {
		return nil, err
	}
	if made, err := x.deed.find(ctx, tx, x, x.items[0]); !errors.Is(err, run.ErrNotFound) {
		return []Made{made}, err
	}
	proof, err := checkProof(ctx, tx, x.who, x.claim())
	if err != nil {
		return nil, err
	}
	return x.carryOut(ctx, tx, grant{fence: f, proof: proof}, proof.Purpose.Items, x.items[0].mutation)
}

func (x mutation) claim() policy.Claim {
	subject := x.batch
	if subject == uuid.Nil {
		subject = x.items[0].run
	}
	return x.who.claim(x.deed.action, x.project, subject)
}

// carryOut checks everything that a proof does not say, consumes it for mutation id, and writes. All of it happens, or
// nothing.
func (x mutation) carryOut(ctx context.Context, tx pgx.Tx, g grant, verified []policy.Item, id uuid.UUID) ([]Made, error) {
	if err := g.fence.checkBound(g.proof); err != nil {
		return nil, err
	}
	sources, err := run.LockSources(ctx, tx, x.project, x.runs())
	if err != nil {
		return nil, err
	}
	if err := x.check(verified, sources); err != nil {
		return nil, err
	}
	for _, s := range sources {
		g.atMS = max(g.atMS, s.NowMS)
	}
	if x.deed.quota {
		if err := checkQuota(ctx, tx, x.project, x.who.user(), g.atMS, len(x.items)); err != nil {
			return nil, err
		}
	}
	ok, err := policy.ConsumeProof(ctx, tx, g.proof.ID, id)
	if err == nil && !ok {
		err = proofRefusal(policy.ProofExpired)
	}
	if err != nil {
		return nil, err
	}
	return x.writeAll(ctx, tx, g, sources)
}

func (x mutation) writeAll(ctx context.Context, tx pgx.Tx, g grant, sources map[uuid.UUID]run.Source) (all []Made, err error) {
	for _, i := range x.items {
		made, err := x.deed.write(ctx, tx, x, i, g, sources[i.run])
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	return all, nil
}

func (x mutation) runs() (ids []uuid.UUID) {
	for _, i := range x.items {
		ids = append(ids, i.run)
	}
	return ids
}

// check judges every Run, so that all that is wrong is seen at once.
func (x mutation) check(verified []policy.Item, sources map[uuid.UUID]run.Source) error {
	var refused []RunRefusal
	for _, i := range x.items {
		if r := x.checkOne(i, verified, sources); r != nil {
			refused = append(refused, RunRefusal{Run: i.run, Mutation: i.mutation, Refusal: r})
		}
	}
	switch {
	case len(refused) == 0:
		return nil
	case x.batch == uuid.Nil:
		return refused[0].Refusal
	}
	return refusedRuns(refused, len(x.items))
}

func (x mutation) checkOne(i item, verified []policy.Item, sources map[uuid.UUID]run.Source) *Refusal {
	s, ok := sources[i.run]
	if !ok {
		return refuse(NotFound, text.Of("There is no such Run."))
	}
	at := slices.IndexFunc(verified, func(v policy.Item) bool { return v.Run == i.run })
	if at < 0 {
		return refuse(Invalid, text.Of("The Run is not one that was verified."))
	}
	if r := cmp.Or(x.deed.never(s), x.deed.changed(i, verified[at], s)); r != nil {
		return r.with(s)
	}
	return nil
}

func refusedRuns(list []RunRefusal, of int) *Refusal {
	r := refuse(RunsRefused, text.Of("%s of %s Runs were refused, so nothing was done.", len(list), of))
	r.Runs = list
	return r
}

// checkQuota refuses what would be more than the quota in the window, and says when there is room for all n.
func checkQuota(ctx context.Context, q pg.Querier, project string, user uuid.UUID, nowMS int64, n int) error {
	made, err := run.RetriesSince(ctx, q, project, user, nowMS-QuotaWindow.Milliseconds())
	if err != nil {
		return err
	}
	if r := limited(made, nowMS, n); r != nil {
		return r
	}
	return nil
}

// limited judges n more retries by the times of those made in the window, oldest first.
func limited(made []int64, nowMS int64, n int) *Refusal {
	over := len(made) + n - Quota
	if over <= 0 {
		return nil
	}
	r := refuse(RateLimited, text.Of("You have made %s retries in this Project within a minute; %s are allowed, and this is %s more.", len(made), Quota, n))
	r.RetryAfter = time.Duration(made[min(over, len(made))-1]+QuotaWindow.Milliseconds()-nowMS) * time.Millisecond
	return r
}

// target is what the audit says of the attempt on i.
func (x mutation) target(i item) target {
	return target{who: x.who, project: x.project, run: i.run, mutation: i.mutation, words: x.words, version: i.version, batch: x.batch}
}
