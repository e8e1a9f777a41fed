package main

import (
	"slices"
	"strings"
)

// A section is the mutations of one part of the protocol.
type section struct {
	name      string
	mutations []mutation
}

var sections = []section{
	{"The claim", claims},
	{"The fence", fence},
	{"The commit", commits},
	{"A lost answer", settling},
	{"Decide and drain", deciding},
	{"Old and new side by side", upgrading},
	{"Publish, archive, pause", publishing},
	{"The Run and its Attempt", runs},
	{"Facts that only the database keeps", facts},
	{"Proof and permission", proofs},
	{"The retry", retries},
	{"Sign-in and step-up", signIns},
	{"Overload", overload},
}

// in fills in where the mutations of a list are.
func in(file, pkg, test string, list ...mutation) []mutation {
	for i := range list {
		list[i].file, list[i].pkg = file, pkg
		if list[i].test == "" {
			list[i].test = test
		}
	}
	return list
}

// always makes the comparisons of a list true, one at a time. They are named by what they compare.
func always(file, pkg, test string, comparisons ...string) []mutation {
	var list []mutation
	for _, c := range comparisons {
		list = append(list, mutation{what: c, from: c, to: "true"})
	}
	return in(file, pkg, test, list...)
}

// never makes the conditions of a list false, one at a time.
func never(file, pkg, test string, conditions ...string) []mutation {
	list := always(file, pkg, test, conditions...)
	for i := range list {
		list[i].to = "false"
	}
	return list
}

const (
	claimFile  = "internal/scheduler/claim.go"
	fenceFile  = "internal/scheduler/fence.go"
	commitFile = "internal/scheduler/commit.go"
)

var claims = in(claimFile, "", "",
	mutation{what: "passing by a row that somebody else is claiming", from: " SKIP LOCKED", to: "", test: "TestClaimSkipsARowThatIsBeingClaimed"},
	mutation{what: "the row lock", from: " FOR UPDATE OF s SKIP LOCKED", to: "", test: "TestClaimSkipsARowThatIsBeingClaimed|TestClaimNeverReturnsWhatAPublisherIsChanging"},
	mutation{what: "leaving alone what is held", from: "AND (s.claim_expires_at_ms IS NULL OR s.claim_expires_at_ms <= (SELECT ms FROM clock))", to: "", test: "TestClaimLeavesAHeldScheduleAloneUntilItExpires"},
	mutation{what: "taking what has expired", from: "s.claim_expires_at_ms IS NULL OR s.claim_expires_at_ms <= (SELECT ms FROM clock)", to: "s.claim_expires_at_ms IS NULL", test: "TestClaimLeavesAHeldScheduleAloneUntilItExpires"},
	mutation{what: "only what is due", from: "coalesce(s.next_fire_at_ms, -1) <= (SELECT ms FROM clock)", to: "true", test: "TestClaimTakesWhatIsDueEarliestFirst|TestClaimRefuses"},
	mutation{what: "only what is enabled, which a paused Trigger is not", from: "WHERE s.enabled AND", to: "WHERE", test: "TestPausedIsNeverClaimed"},
	mutation{what: "only active Projects", from: " AND p.status = 'active'", to: "", test: "TestClaimRefuses"},
	mutation{what: "only enabled Triggers", from: "tr.enabled AND ", to: "", test: "TestClaimRefuses"},
	mutation{what: "only the current revision", from: " AND t.current_revision = s.trigger_revision", to: "", test: "TestClaimRefuses"},
	mutation{what: "a new version", from: "claim_version = s.claim_version + 1", to: "claim_version = s.claim_version", test: "TestClaimWritesTheWholeLease|TestClaimLeavesAHeldScheduleAloneUntilItExpires"},
	mutation{what: "a new state version", from: "state_version = s.state_version + 1", to: "state_version = s.state_version", test: "TestClaimWritesTheWholeLease"},
	mutation{what: "a new token", from: "claim_token = gen_random_uuid()", to: "claim_token = coalesce(s.claim_token, gen_random_uuid())", test: "TestClaimLeavesAHeldScheduleAloneUntilItExpires|TestStalledReplicaCommitsNothingBeforeTheNewHolder"},
	mutation{what: "the order by which the earliest comes first", from: "    ORDER BY coalesce(s.next_fire_at_ms, -1), s.project_id, s.trigger_id\n    LIMIT", to: "    ORDER BY s.trigger_id DESC LIMIT", test: "TestClaimTakesWhatIsDueEarliestFirst"},
)

// changed are comparisons over the locked row, of which the test of that part must notice that they are gone.
func changed(part string, comparisons ...string) []mutation {
	list := always(fenceFile, "", "TestCommitRefusesABrokenFence/_"+part+"$", comparisons...)
	for i, c := range comparisons {
		if name, _, ok := strings.Cut(c, ", "); ok && strings.HasPrefix(c, "{") {
			list[i].to = name + ", true}"
		}
	}
	return list
}

// How the fence locks its rows.
const (
	lockedRows = "WHERE s.ctid = ANY($1::tid[]) AND s.claim_token = ANY($2::uuid[]) AND s.claim_version = ANY($3::bigint[])\n"
	locking    = "UPDATE trigger_schedules s SET claim_owner = s.claim_owner\n    " + lockedRows + "    RETURNING s.ctid AS tid, s.*\n"
)

// The comparisons of the fence, each by itself.
var fence = slices.Concat(
	always(fenceFile, "", "TestBrokenComparesEveryPart",
		"now.projectID == c.ProjectID", "now.triggerID == c.TriggerID", "now.token == c.Token", "now.version == c.Version", "now.nowMS < now.expiresAtMS",
		"now.nowMS >= c.AcquiredAtMS", "d.ObservedMS == now.acquiredAtMS", "d.DueMS <= d.ObservedMS && (now.cursorMS == nil || *now.cursorMS == d.DueMS)",
		"d.NextMS > d.ObservedMS"),
	changed("claim_owner", "now.owner == c.Owner"),
	changed("claim_expiry", "now.expiresAtMS == c.ExpiresAtMS"),
	changed("claim_acquired_at", "now.acquiredAtMS == c.AcquiredAtMS"),
	changed("state_version", "now.stateVersion == c.StateVersion"),
	changed("schedule_enabled", `{"schedule enabled", now.enabled}`),
	changed("cursor", "sameInstant(now.cursorMS, c.CursorMS)"),
	changed("catch_up", "now.catchUp == c.CatchUp"),
	changed("schedule_revision", "now.scheduleRevision == c.TriggerRevision"),
	changed("project_status", `now.projectStatus == "active"`),
	changed("project_version", "now.projectVersion == c.ProjectVersion"),
	changed("trigger_revision", "now.headRevision == c.TriggerRevision"),
	changed("trigger_enabled", `{"trigger enabled", now.triggerEnabled}`),
	changed("trigger_digest", "now.triggerDigest == c.TriggerDigest", "intact(catalog.DomainTrigger, now.triggerContent, now.triggerDigest)"),
	changed("task", "now.taskID == c.TaskID"),
	changed("task_revision", "now.taskRevision == c.TaskRevision"),
	changed("task_digest", "now.taskDigest == c.TaskDigest", "now.taskOwnDigest == c.TaskDigest"),
	changed("execution_revision", "now.executionID == c.ExecutionID"),
	changed("execution_digest", "now.executionDigest == c.ExecutionDigest", "intact(catalog.DomainExecution, now.executionContent, now.executionDigest)"),
	in(fenceFile, "", "TestCommitRefusesABrokenFence/claim_gone",
		mutation{what: "finding the row by its token", from: "s.claim_token = ANY($2::uuid[])", to: "$2::uuid[] IS NOT NULL"},
		mutation{what: "finding the row by its version", from: "s.claim_version = ANY($3::bigint[])", to: "$3::bigint[] IS NOT NULL"},
		mutation{what: "the row lock", from: locking, to: "SELECT s.ctid AS tid, s.* FROM trigger_schedules s\n    " + lockedRows, test: "TestClaimThatExpiresWhileCommitWaitsForTheLock|TestPublishingDefeatsAHeldClaim"},
		mutation{what: "locking by a write, of which no predicate lock remains", from: locking, to: "SELECT s.ctid AS tid, s.* FROM trigger_schedules s\n    " + lockedRows + "    FOR UPDATE\n", test: "TestCommitLeavesNoPredicateLockOnSchedules"},
		mutation{what: "reading the clock after the lock is granted", from: "SELECT s.tid, ` + pg.ClockMS + `, s.project_id",
			to: "SELECT s.tid, least(` + pg.ClockMS + `, floor(extract(epoch FROM now()) * 1000)::bigint), s.project_id", test: "TestClaimThatExpiresWhileCommitWaitsForTheLock"},
	))

var commits = slices.Concat(
	in(commitFile, "", "",
		mutation{what: "dropping what is raced from a batch", from: "if results[i].Outcome == Raced {\n\t\t\tcontinue", to: "if false {\n\t\t\tcontinue", test: "TestCommitDropsOnlyTheRacedOfABatch|TestCommitRefusesABrokenFence"},
		mutation{what: "admitting only what is intact", from: "if results[i].Outcome == Admitted {", to: "if w.decision.Kind == Admit {", test: "TestCommitRefusesABrokenFence"},
		mutation{what: "a new state version", from: "state_version = s.state_version + 1", to: "state_version = s.state_version", test: "TestCommitAdmitsOnce"},
		mutation{what: "giving the claim back", from: "claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL,", to: "", test: "TestCommitAdmitsOnce"},
		mutation{what: "advancing the cursor", from: "SET next_fire_at_ms = n.next, ", to: "SET ", test: "TestCommitAdmitsOnce"},
		mutation{what: "finding the row by its token", from: "WHERE s.ctid = n.tid AND s.claim_token = n.token", to: "WHERE n.token IS NOT NULL", test: "TestCommitDropsOnlyTheRacedOfABatch|TestCommitFindsItsRowsByCtid"},
		mutation{what: "repeating what was rolled back", from: "pg.RolledBack(err) && len(list) == 1", to: "false", test: "TestCommitRepeatsWhatWasRolledBack"},
		mutation{what: "splitting a batch that was rolled back", from: "case (pg.RolledBack(err) || pg.Refused(err)) && len(list) > 1:", to: "case pg.Refused(err) && len(list) > 1:", test: "TestCommitRepeatsWhatWasRolledBack"},
		mutation{what: "splitting a batch of which one is refused", from: "(pg.RolledBack(err) || pg.Refused(err))", to: "pg.RolledBack(err)", test: "TestCommitFailsOnlyTheRefusedOfABatch"},
	),
	in("internal/pg/tx.go", "", "",
		mutation{what: "SERIALIZABLE, which the whole fence rests on", from: "return once(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, fn)", to: "return once(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)", test: "TestTryTxLeavesAConflictToItsCaller"},
		mutation{what: "SERIALIZABLE, which the quota rests on", from: "err := once(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable}, fn)", to: "err := once(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, fn)", test: "TestInTxRepeatsARealConflict"},
		mutation{what: "a COMMIT without an answer being unknown", from: `return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)`, to: "return err", test: "TestCommitWithoutAnswerIsUnknown|TestCommitOfATerminatedSessionIsUnknown"},
		mutation{what: "a COMMIT outliving its caller", from: "context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)", to: "context.WithTimeout(ctx, commitTimeout)", test: "TestCommitOutlivesItsCaller"},
		mutation{what: "rolled back not being unknown", from: "|| certainlyRolledBack(err) {", to: "{", test: "TestCommitThatCertainlyFailedIsNotUnknown"},
	))

var settling = in("internal/scheduler/settle.go", "", "",
	mutation{what: "the row lock that waits for the lost transaction", from: "WHERE project_id = $1 AND trigger_id = $2 FOR UPDATE`", to: "WHERE project_id = $1 AND trigger_id = $2`", test: "TestLostCommitAnswerThatLandsLater"},
	mutation{what: "committing again what is still held", from: "if errors.Is(err, errStillHeld) {", to: "if false {", test: "TestLostCommitAnswerIsSettledFromFacts"},
	mutation{what: "believing the Run that is there", from: "return Result{Outcome: Admitted, RunID: id, LatenessMS: createdMS - w.decision.DueMS}, err", to: "return Result{Outcome: Raced}, err", test: "TestLostCommitAnswerIsSettledFromFacts"},
	mutation{what: "comparing the state version of a cursor", from: "next_fire_at_ms IS NOT DISTINCT FROM $3 AND state_version = $4", to: "next_fire_at_ms IS NOT DISTINCT FROM $3 AND $4::bigint IS NOT NULL", test: "TestCursorOnRecord"},
)

var deciding = slices.Concat(
	in("internal/scheduler/decide.go", "", "",
		mutation{what: "the digest of what is decided from", from: "if err := catalog.Verify(catalog.DomainTrigger, c.TriggerContent, c.TriggerDigest); err != nil {", to: "if false {\n\t\tvar err error", test: "TestDecideBlocks"},
		mutation{what: "skipping what is too late", from: "d.LatenessMS() > grace.Milliseconds()", to: "false", test: "TestDecide"},
		mutation{what: "an instant that is not due yet", from: "if due > d.ObservedMS {", to: "if false {", test: "TestDecide"},
		mutation{what: "accounting for what is passed over", from: "d.Passed = passed(schedule, d.DueMS, d.NextMS)", to: "", test: "TestDecide|TestDecideAccountsForEveryInstant"},
	),
	in("internal/scheduler/record.go", "", "TestBlockNeedsTheClaim",
		mutation{what: "blocking only what is held", from: "WHERE s.ctid = $1 AND s.claim_token = $2 AND s.claim_version = $3 FOR UPDATE", to: "WHERE s.ctid = $1 AND $2::uuid IS NOT NULL AND $3::bigint IS NOT NULL FOR UPDATE"},
	),
	in("internal/scheduler/lifecycle.go", "", "TestRunDrains",
		mutation{what: "the drain", from: "\tselect {\n\tcase <-done:\n\t\treturn nil\n\tcase <-time.After(s.Settings.Drain):", to: "\tselect {\n\tdefault:\n\t\treturn nil\n\tcase <-time.After(s.Settings.Drain):"},
		mutation{what: "the end of the drain", from: "case <-time.After(s.Settings.Drain):", to: "case <-make(chan time.Time):"},
	),
	in("internal/scheduler/cycle.go", "", "TestRunDrains",
		mutation{what: "finishing what is in hand when asked to stop", from: "return context.WithTimeout(context.WithoutCancel(ctx), s.Settings.Deadline)", to: "return context.WithTimeout(ctx, s.Settings.Deadline)"},
	),
	in("cmd/console/server.go", "", "",
		mutation{what: "withdrawing admission before the drain", from: `s.withdraw(errors.New("stopping"))`, to: "", test: "TestStopping"},
		mutation{what: "withdrawing admission when the database is lost", from: `s.withdraw(fmt.Errorf("the database is lost, or no longer as it was: %w", err))`, to: "_ = err", test: "TestAdmissionEndsBeforeTheDrain"},
		mutation{what: "passing the gates", from: "if err := g.pass(ctx); err != nil {\n\t\t\treturn fmt.Errorf(\"%s: %w\", g.name, err)", to: "if err := g.pass(ctx); false {\n\t\t\treturn fmt.Errorf(\"%s: %w\", g.name, err)", test: "TestPrivilegesGateReadiness"},
	))
