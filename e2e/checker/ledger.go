package checker

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The rules about Runs, proofs, the audit and claims.
const (
	EventGap       = "the Events of a Run do not count from 1"
	NotAdmitted    = "a Run does not begin with run.created and run.queued"
	NotOneAttempt  = "a Run has no Attempt, or several"
	AttemptDiffers = "a Run that is over differs from its Attempt"
	BackInTime     = "an Event is older than the one before it"
	WrongID        = "the id of a Run does not carry the time of its creation"
	ProofTwice     = "a proof was used twice"
	ProofUnmarked  = "a proof was used and does not say for what"
	ProofUnused    = "a proof says that it was used, and nothing came of it"
	MutationTwice  = "a mutation was done twice"
	OverQuota      = "somebody made more than 64 retries in a minute"
	SourceNotOver  = "what was retried is not over"
	RetryUnaudited = "a retry has not exactly one allowed row in the audit"
	StopUnaudited  = "a stop has not exactly one allowed row in the audit"
	PauseUnaudited = "a pause or its end has not exactly one allowed row in the audit"
	AuditOfNothing = "an allowed row in the audit of what was never done"
	LapsedClaim    = "a claim is left past its lease"
	NoResumption   = "a Schedule is held by a pause that is over"
)

// deeds are what operators did, with the proof and the mutation of each.
const deeds = `deeds AS (
    SELECT 'run.retry' AS action, r.id AS run_id, r.step_up_proof_id AS proof, (e.payload ->> 'mutation_id')::uuid AS mutation
    FROM ql3.runs r LEFT JOIN ql3.run_events e ON e.run_id = r.id AND e.sequence = 1 WHERE r.retry_of_run_id IS NOT NULL
    UNION ALL
    SELECT 'run.stop', run_id, (payload ->> 'authentication_id')::uuid, (payload ->> 'mutation_id')::uuid
    FROM ql3.run_events WHERE type = 'run.cancel_requested' AND actor_type = 'user'
), holds AS (
    SELECT 'trigger.pause' AS action, id FROM ql3.trigger_pauses
    UNION ALL
    SELECT 'trigger.resume', id FROM ql3.trigger_pauses WHERE resumed_at_ms IS NOT NULL
), allowed AS (
    SELECT * FROM ql3.security_audit_events WHERE outcome = 'allowed' AND action IN ('run.retry', 'run.stop', 'trigger.pause', 'trigger.resume')
)`

// unaudited are the deeds of one action that have not exactly one row.
func unaudited(action string) string {
	return `WITH ` + deeds + ` SELECT format('%s of %s: %s rows', d.mutation, d.run_id, count(a.id)) FROM deeds d
		LEFT JOIN allowed a ON a.action = d.action AND a.mutation_id = d.mutation AND a.proof_id = d.proof
		WHERE d.action = '` + action + `' GROUP BY d.mutation, d.run_id HAVING count(a.id) <> 1`
}

// ledger is each rule with the question that answers with whatever breaks it.
var ledger = []struct{ rule, sql string }{
	{EventGap, `SELECT format('%s: %s to %s are %s, the Run says %s', r.id, e.first, e.last, e.n, r.event_sequence) FROM ql3.runs r
		LEFT JOIN (SELECT run_id, count(*) AS n, min(sequence) AS first, max(sequence) AS last FROM ql3.run_events GROUP BY run_id) e ON e.run_id = r.id
		WHERE (e.first = 1 AND e.last = e.n AND r.event_sequence = e.n) IS NOT TRUE`},
	{NotAdmitted, `SELECT r.id::text FROM ql3.runs r
		LEFT JOIN ql3.run_events a ON a.run_id = r.id AND a.sequence = 1 LEFT JOIN ql3.run_events b ON b.run_id = r.id AND b.sequence = 2
		WHERE (a.type = 'run.created' AND b.type = 'run.queued') IS NOT TRUE`},
	{NotOneAttempt, `SELECT format('%s: %s', r.id, count(a.id)) FROM ql3.runs r LEFT JOIN ql3.run_attempts a ON a.run_id = r.id GROUP BY r.id HAVING count(a.id) <> 1`},
	{AttemptDiffers, `SELECT format('%s: %s, %s', r.id, r.status, a.status) FROM ql3.runs r JOIN ql3.run_attempts a ON a.run_id = r.id
		WHERE r.status IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'lost') AND a.status <> r.status`},
	{BackInTime, `SELECT format('%s: %s', a.run_id, b.sequence) FROM ql3.run_events a JOIN ql3.run_events b ON b.run_id = a.run_id AND b.sequence = a.sequence + 1
		WHERE b.created_at_ms < a.created_at_ms`},
	{WrongID, `SELECT format('%s: %s', id, created_at_ms) FROM ql3.runs WHERE ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint <> created_at_ms`},
	{ProofTwice, `WITH ` + deeds + ` SELECT format('%s: %s times', proof, count(*)) FROM deeds GROUP BY proof HAVING count(*) > 1`},
	{ProofUnmarked, `WITH ` + deeds + ` SELECT format('%s of %s', d.proof, d.run_id) FROM deeds d LEFT JOIN ql3.step_up_proofs p ON p.id = d.proof
		WHERE (p.consumed_mutation_id = d.mutation AND p.action = d.action) IS NOT TRUE`},
	{ProofUnused, `WITH ` + deeds + ` SELECT p.id::text FROM ql3.step_up_proofs p
		WHERE p.consumed_at_ms IS NOT NULL AND NOT EXISTS (SELECT FROM deeds d WHERE d.proof = p.id)`},
	{MutationTwice, `WITH ` + deeds + ` SELECT coalesce(mutation::text, 'of no name') FROM deeds GROUP BY mutation HAVING count(*) > 1`},
	{OverQuota, `SELECT DISTINCT format('%s in %s', a.triggered_by, a.project_id) FROM ql3.runs a WHERE a.retry_of_run_id IS NOT NULL AND 64 < (
		SELECT count(*) FROM ql3.runs b WHERE b.retry_of_run_id IS NOT NULL AND b.project_id = a.project_id AND b.triggered_by = a.triggered_by
			AND b.created_at_ms BETWEEN a.created_at_ms - 59999 AND a.created_at_ms)`},
	{SourceNotOver, `SELECT format('%s: %s', s.id, s.status) FROM ql3.runs r JOIN ql3.runs s ON s.id = r.retry_of_run_id
		WHERE s.status NOT IN ('failed', 'cancelled', 'timed_out') OR s.finished_at_ms IS NULL`},
	{RetryUnaudited, unaudited("run.retry")},
	{StopUnaudited, unaudited("run.stop")},
	{PauseUnaudited, `WITH ` + deeds + ` SELECT format('%s of %s: %s rows', h.action, h.id, count(a.id)) FROM holds h
		LEFT JOIN allowed a ON a.action = h.action AND a.mutation_id = h.id GROUP BY h.action, h.id HAVING count(a.id) <> 1`},
	{AuditOfNothing, `WITH ` + deeds + ` SELECT format('%s %s', a.action, a.mutation_id) FROM allowed a
		WHERE NOT EXISTS (SELECT FROM deeds d WHERE d.action = a.action AND d.mutation = a.mutation_id)
			AND NOT EXISTS (SELECT FROM holds h WHERE h.action = a.action AND h.id = a.mutation_id)`},
	{LapsedClaim, `SELECT format('%s/%s by %s', project_id, trigger_id, claim_owner) FROM ql3.trigger_schedules
		WHERE claim_expires_at_ms <= extract(epoch FROM clock_timestamp()) * 1000`},
	{NoResumption, `SELECT format('%s/%s', s.project_id, s.trigger_id) FROM ql3.trigger_schedules s JOIN ql3.trigger_pauses p ON p.id = s.pause_id WHERE p.resumed_at_ms IS NOT NULL`},
}

// readLedger asks every question.
func readLedger(ctx context.Context, tx pgx.Tx, r *Report) error {
	for _, q := range ledger {
		rows, err := tx.Query(ctx, q.sql)
		if err != nil {
			return fmt.Errorf("%s: %w", q.rule, err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("%s: %w", q.rule, err)
		}
		for _, what := range found {
			r.wrong(q.rule, "%s", what)
		}
	}
	return nil
}
