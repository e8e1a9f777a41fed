package runmgmt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/catalog"
	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
)

// MaxBatch is how many Runs one batch has at most.
const MaxBatch = 50

// Selection is Runs of one Project that somebody wants to do the same to.
type Selection struct {
	Who       Who
	Action    policy.Permission
	ProjectID string
	Runs      []uuid.UUID // in the order in which they are to happen; the same one twice counts once
	Words     string      // the reason
}

// Batch is a selection frozen in rows: what a step-up is for. It is its user's, and is submitted once.
type Batch struct {
	ID            uuid.UUID
	Action        policy.Permission
	ProjectID     string
	UserID        uuid.UUID
	Words         string
	CreatedAtMS   int64
	SubmittedAtMS *int64
	items         []item
}

// Purpose is what a step-up for the batch is for.
func (b Batch) Purpose() policy.Purpose {
	return policy.Purpose{Action: b.Action, ProjectID: b.ProjectID, Batch: b.ID}
}

// actionBatch names in the audit an attempt on a batch that is not there.
const actionBatch policy.Permission = "run.batch"

func (b Batch) action() policy.Permission { return cmp.Or(b.Action, actionBatch) }

// Size is how many Runs it has.
func (b Batch) Size() int { return len(b.items) }

// verified is the frozen set as a proof of the batch stands for it.
func (b Batch) verified() (list []policy.Item) {
	for _, i := range b.items {
		list = append(list, policy.Item{Run: i.run, Version: i.version, Digest: i.digest})
	}
	return list
}

// Selected is one Run of a selection that is not frozen yet. Nothing of what the Task executes is in it but its author's
// note.
type Selected struct {
	Source run.Source
	Note   catalog.RetryContent // of a retry
	Never  *Refusal             // why no verification would help; nil if one may
}

// AimBatch reads what a selection would be, before a reason is given: one entry for each Run of it that the Project has, in
// its order. It needs no proof, and writes nothing.
func (m *Manager) AimBatch(ctx context.Context, action policy.Permission, project string, ids []uuid.UUID) (list []Selected, err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	ids = distinct(ids)
	if len(ids) > MaxBatch {
		return nil, tooMany(len(ids))
	}
	err = pg.ReadTx(ctx, m.Pool, func(tx pgx.Tx) error {
		sources, err := run.ReadSources(ctx, tx, project, ids)
		if err != nil {
			return err
		}
		notes := notesOf{}
		for _, id := range ids {
			s, ok := sources[id]
			if !ok {
				continue
			}
			one := Selected{Source: s, Never: never(action, s)}
			if action == policy.RetryRun {
				if one.Note, err = notes.read(ctx, tx, s); err != nil {
					return err
				}
			}
			list = append(list, one)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return list, nil
}

// notesOf are the notes of Tasks that were read already.
type notesOf map[string]catalog.RetryContent

func (n notesOf) read(ctx context.Context, q pg.Querier, s run.Source) (catalog.RetryContent, error) {
	if note, ok := n[s.TaskID]; ok || s.TaskHead == 0 {
		return note, nil
	}
	head, err := catalog.ReadTask(ctx, q, s.ProjectID, s.TaskID, s.TaskHead)
	n[s.TaskID] = head.Retry
	return head.Retry, err
}

func tooMany(n int) *Refusal {
	return refuse(Invalid, text.Of("%s Runs are selected; a batch has at most %s.", n, MaxBatch))
}

// distinct keeps the first of each id.
func distinct(ids []uuid.UUID) (list []uuid.UUID) {
	for _, id := range ids {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// Freeze records the selection as it is now, for a step-up to prove. A Run for which no verification would help refuses
// all of it, and so does one that is not the Project's.
func (m *Manager) Freeze(ctx context.Context, s Selection) (Batch, error) {
	s.Runs = distinct(s.Runs)
	t := target{who: s.Who, project: s.ProjectID, words: s.Words}
	d, known := deeds[s.Action]
	if !known {
		return Batch{}, errors.New("runmgmt: Freeze of an action that is none of a Run")
	}
	err := s.validate(d)
	var b Batch
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		err = pg.InTx(ctx, m.Pool, func(tx pgx.Tx) (err error) {
			b, err = s.freeze(ctx, tx, d)
			return err
		})
	}
	if err != nil {
		return Batch{}, m.refused(ctx, s.Action, t, err)
	}
	return b, nil
}

func (s Selection) validate(d deed) error {
	switch {
	case s.ProjectID == "" || len(s.Runs) == 0:
		return refuse(Invalid, text.Of("No Run is selected."))
	case len(s.Runs) > MaxBatch:
		return tooMany(len(s.Runs))
	}
	return checkWords(s.Words, d.ask)
}

func (s Selection) freeze(ctx context.Context, tx pgx.Tx, d deed) (Batch, error) {
	if _, err := takeFence(ctx, tx, s.ProjectID, s.Who.user(), s.Action); err != nil {
		return Batch{}, err
	}
	sources, err := run.ReadSources(ctx, tx, s.ProjectID, s.Runs)
	if err != nil {
		return Batch{}, err
	}
	b := Batch{ID: uuid.New(), Action: s.Action, ProjectID: s.ProjectID, UserID: s.Who.user(), Words: s.Words}
	var refused []RunRefusal
	for _, id := range s.Runs {
		source, ok := sources[id]
		r := refuse(NotFound, text.Of("There is no such Run."))
		if ok {
			r = never(s.Action, source)
		}
		if r != nil {
			refused = append(refused, RunRefusal{Run: id, Refusal: r})
		}
		b.items = append(b.items, item{mutation: mutationOf(b.ID, id), run: id, status: source.Status, version: source.Version, digest: source.ExecutionDigest})
	}
	if len(refused) > 0 {
		return Batch{}, refusedRuns(refused, len(s.Runs))
	}
	return b, b.insert(ctx, tx)
}

// mutationOf is the mutation of one Run of a batch: the same for whoever derives it.
func mutationOf(batch, id uuid.UUID) uuid.UUID { return uuid.NewSHA1(batch, id[:]) }

func (b *Batch) insert(ctx context.Context, tx pgx.Tx) error {
	err := tx.QueryRow(ctx, `INSERT INTO run_batches (id, action, project_id, user_id, words, created_at_ms) VALUES ($1, $2, $3, $4, $5, `+pg.ClockMS+`) RETURNING created_at_ms`,
		b.ID, b.Action, b.ProjectID, b.UserID, b.Words).Scan(&b.CreatedAtMS)
	if err != nil {
		return err
	}
	var runs, mutations []uuid.UUID
	var statuses, digests []string
	var versions []int64
	for _, i := range b.items {
		runs, mutations = append(runs, i.run), append(mutations, i.mutation)
		statuses, digests, versions = append(statuses, string(i.status)), append(digests, i.digest), append(versions, i.version)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO run_batch_items (batch_id, position, run_id, run_status, run_version, execution_digest, mutation_id)
		SELECT $1, n.position, n.run, n.status, n.version, n.digest, n.mutation
		FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::text[], $6::uuid[]) WITH ORDINALITY AS n(run, status, version, digest, mutation, position)`,
		b.ID, runs, statuses, versions, digests, mutations)
	return err
}

const batchSQL = `SELECT id, action, project_id, user_id, words, created_at_ms, submitted_at_ms FROM run_batches WHERE id = $1`

// readBatch reads a batch and its frozen set, or [run.ErrNotFound]. A lock clause may follow batchSQL.
func readBatch(ctx context.Context, q pg.Querier, sql string, id uuid.UUID) (b Batch, err error) {
	defer pg.Wrap(&err, "runmgmt.readBatch(%s)", id)
	err = q.QueryRow(ctx, sql, id).Scan(&b.ID, &b.Action, &b.ProjectID, &b.UserID, &b.Words, &b.CreatedAtMS, &b.SubmittedAtMS)
	if errors.Is(err, pgx.ErrNoRows) {
		return Batch{}, run.ErrNotFound
	}
	if err != nil {
		return Batch{}, err
	}
	rows, err := q.Query(ctx, `SELECT mutation_id, run_id, run_status, run_version, execution_digest FROM run_batch_items WHERE batch_id = $1 ORDER BY position`, id)
	if err != nil {
		return Batch{}, err
	}
	b.items, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i item, err error) {
		return i, row.Scan(&i.mutation, &i.run, &i.status, &i.version, &i.digest)
	})
	return b, err
}

// Frozen returns who's own batch, for another step-up after one that expired, or [run.ErrNotFound]: also when it is
// somebody else's.
func (m *Manager) Frozen(ctx context.Context, who Who, id uuid.UUID) (Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	b, err := readBatch(ctx, m.Pool, batchSQL, id)
	switch {
	case errors.Is(err, run.ErrNotFound):
		return Batch{}, run.ErrNotFound
	case err != nil:
		return Batch{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case b.UserID != who.user():
		return Batch{}, run.ErrNotFound
	}
	return b, nil
}
