package main

import "slices"

const (
	storeFile  = "internal/catalog/store.go"
	pauseFile  = "migrations/00007_pauses.sql"
	runsFile   = "migrations/00002_runs.sql"
	stepUpFile = "migrations/00005_step_up.sql"
)

var publishing = slices.Concat(
	in(storeFile, "", "",
		mutation{what: "the lock of the Project, first", from: "WHERE id = $1 FOR NO KEY UPDATE`, p.id)", to: "WHERE id = $1`, p.id)", test: "TestApplyReadsClockAfterLocks|TestApplyConcurrently"},
		mutation{what: "the locks of the Schedules, before the clock", from: "ORDER BY trigger_id FOR UPDATE`", to: "ORDER BY trigger_id`", test: "TestApplyWaitsForAdmission|TestApplyReadsClockAfterLocks"},
		mutation{what: "rewriting what an archive affects", from: "for _, r := range p.resets {\n\t\twriteSuperseded", to: "for _, r := range p.resets[:0] {\n\t\twriteSuperseded", test: "TestApplyEndsClaims"},
		mutation{what: "a new state version", from: "state_version = s.state_version + 1", to: "state_version = s.state_version", test: "TestApplyEndsClaims"},
		mutation{what: "a new claim version", from: "claim_version = s.claim_version + 1", to: "claim_version = s.claim_version", test: "TestApplyEndsClaims"},
		mutation{what: "ending the claim", from: "claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL,", to: "", test: "TestApplyEndsClaims"},
		mutation{what: "accounting for what was due", from: "writeSuperseded(&b, p.id, r, nowMS)", to: "", test: "TestApplyRecordsSuperseded"},
		mutation{what: "the guard that makes a waiting retry start again", from: "UPDATE projects SET guard = guard + 1, name = $2", to: "UPDATE projects SET name = $2", test: "TestApplyChanges|TestApplyArchives"},
	),
	in("internal/catalog/passed.go", "", "",
		mutation{what: "looking ahead for what falls due while publishing waits", from: "p.look(schedule, next(schedule, seenMS))", to: "", test: "TestPassedOver"},
		mutation{what: "losing nothing when it waits for longer than that", from: "p.lastMS, p.atLeast = nowMS, true", to: "", test: "TestPassedOver"},
	),
	in("internal/policy/project.go", "", "",
		mutation{what: "the lock of the Project when a role changes", from: "WHERE id = $1 FOR NO KEY UPDATE`", to: "WHERE id = $1`", test: "TestConcurrentGrants|TestRevokeWaitsForGrant"},
		mutation{what: "the guard that makes a waiting retry see a revoke", from: "UPDATE projects SET guard = guard + 1 WHERE id = ANY($1)", to: "SELECT FROM projects WHERE id = ANY($1)", test: "TestWaitingTransactionSeesChange"},
	),
	in(pauseFile, "internal/scheduler", "",
		mutation{what: "a paused Schedule not being enabled", from: "CONSTRAINT schedule_paused_is_not_enabled CHECK (pause_id IS NULL OR NOT enabled)", to: "CONSTRAINT schedule_paused_is_not_enabled CHECK (true)", test: "TestNoRoleCanClaimWhatIsPaused"},
		mutation{what: "ending the claim", from: "enabled = false, claim_owner = NULL, claim_token = NULL, claim_expires_at_ms = NULL,\n        state_version = s.state_version + 1, claim_version = s.claim_version + 1, updated_at_ms = now_ms\n    WHERE s.project_id = project AND s.trigger_id = trigger;\n    RETURN now_ms;",
			to: "enabled = false, updated_at_ms = now_ms\n    WHERE s.project_id = project AND s.trigger_id = trigger;\n    RETURN now_ms;", test: "TestPauseMeetsAClaim"},
		mutation{what: "the lock of a pause", from: "AND s.pause_id IS NULL FOR UPDATE;", to: "AND s.pause_id IS NULL;", test: "TestPauseReadsTheClockAfterItsLock"},
		mutation{what: "a resumption comparing the state version", from: " AND s.state_version = seen FOR UPDATE OF s;", to: " AND seen IS NOT NULL FOR UPDATE OF s;", test: "TestResumeComparesTheStateVersion"},
		mutation{what: "a resumption enabling only what may fire", from: "enabled = expected,", to: "enabled = true,", test: "TestResumeEnablesOnlyWhatMayFire"},
	),
	in(pauseFile, "internal/scheduler", "",
		mutation{what: "one pause at a time", from: "CREATE UNIQUE INDEX pause_once_at_a_time", to: "CREATE INDEX pause_once_at_a_time", test: "TestFactsAreOnce"},
	))

var runs = slices.Concat(
	in("internal/run/insert.go", "", "",
		mutation{what: "leaving alone what is there under its key", from: "ON CONFLICT (project_id, idempotency_key) DO NOTHING RETURNING id", to: "RETURNING id", test: "TestAdmitIsOnceForEachKey|TestAdmitOfOneKeyByTwoTransactions"},
		mutation{what: "the revision in the key", from: `fmt.Sprintf("ql3:cron:v1:%s:%d:%d", o.TriggerID, o.TriggerRevision, o.ScheduledForMS)`, to: `fmt.Sprintf("ql3:cron:v1:%s:%d", o.TriggerID, o.ScheduledForMS)`, test: "TestOccurrenceKey"},
	),
	in("internal/run/lease.go", "", "",
		mutation{what: "passing by what another worker is taking", from: "LIMIT 1\n    FOR UPDATE OF r, a SKIP LOCKED", to: "LIMIT 1\n    FOR UPDATE OF r, a", test: "TestDispatchPassesByWhatIsLocked"},
		mutation{what: "dispatching only pristine Runs", from: "WHERE ` + pristine + `\n    ORDER BY r.priority", to: "WHERE r.status = 'queued'\n    ORDER BY r.priority", test: "TestDispatchTakesOnlyPristineRuns"},
		mutation{what: "renewing only one's own lease", from: "a.id = $1 AND a.lease_token = $2 AND a.finished_at_ms IS NULL", to: "a.id = $1 AND $2::uuid IS NOT NULL AND a.finished_at_ms IS NULL", test: "TestWithoutTheLeaseNothingChanges"},
		mutation{what: "moving only under one's own lease", from: "WHERE a.id = $1 AND a.lease_token = $2 AND a.status = ANY($3)", to: "WHERE a.id = $1 AND $2::uuid IS NOT NULL AND a.status = ANY($3)", test: "TestWithoutTheLeaseNothingChanges"},
		mutation{what: "the Attempt's moves", from: "a.status = ANY($3)", to: "$3::text[] IS NOT NULL", test: "TestMovesAreTheTables"},
		mutation{what: "the Run's moves", from: "r.status = ANY($4)", to: "$4::text[] IS NOT NULL", test: "TestMovesAreTheTables"},
		mutation{what: "the lock before a move", from: "    FOR UPDATE OF r, a\n), attempt", to: "), attempt", test: "TestFinishBehindAnotherWriter"},
	),
	in("internal/run/recover.go", "", "",
		mutation{what: "leaving a living lease alone", from: "        AND (a.lease_expires_at_ms IS NULL OR a.lease_expires_at_ms <= (SELECT ms FROM clock))\n", to: "", test: "TestRecover"},
		mutation{what: "passing by work in hand", from: "LIMIT $2 FOR UPDATE OF r, a SKIP LOCKED", to: "LIMIT $2", test: "TestRecoverPassesByWorkInHand"},
	))

var facts = slices.Concat(
	in(runsFile, "internal/scheduler", "",
		mutation{what: "one Run for each key", from: "CONSTRAINT run_idempotency_key_once UNIQUE (project_id, idempotency_key)", to: "CONSTRAINT run_idempotency_key_once CHECK (true)", test: "TestTheOccurrenceKeyIsTheLastLine"},
	),
	in(runsFile, "internal/run", "",
		mutation{what: "one Attempt of each number", from: "CONSTRAINT attempt_once UNIQUE (run_id, attempt)", to: "CONSTRAINT attempt_once CHECK (true)", test: "TestFactsAreOnce"},
		mutation{what: "one Event of each number", from: "CONSTRAINT event_sequence_once UNIQUE (run_id, sequence)", to: "CONSTRAINT event_sequence_once CHECK (true)", test: "TestFactsAreOnce"},
		mutation{what: "one Event of each dedupe key", from: "CREATE UNIQUE INDEX event_dedupe_once", to: "CREATE INDEX event_dedupe_once", test: "TestFactsAreOnce"},
		mutation{what: "a terminal Run", from: "CREATE TRIGGER terminal BEFORE UPDATE OR DELETE ON ql3.runs", to: "CREATE TRIGGER terminal BEFORE DELETE ON ql3.runs", test: "TestNobodyWritesWhatIsOver"},
		mutation{what: "a terminal Attempt", from: "CREATE TRIGGER terminal BEFORE UPDATE OR DELETE ON ql3.run_attempts", to: "CREATE TRIGGER terminal BEFORE DELETE ON ql3.run_attempts", test: "TestNobodyWritesWhatIsOver"},
		mutation{what: "Events that never change", from: "CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.run_events", to: "CREATE TRIGGER immutable BEFORE DELETE ON ql3.run_events", test: "TestNobodyWritesWhatIsOver"},
	),
	in(stepUpFile, "internal/runmgmt", "",
		mutation{what: "a stop that is recorded once", from: "CREATE UNIQUE INDEX event_cancel_mutation_once", to: "CREATE INDEX event_cancel_mutation_once", test: "TestFactsAreOnce"},
		mutation{what: "one retry of a source with one proof", from: "CREATE UNIQUE INDEX run_proof_once_per_source", to: "CREATE INDEX run_proof_once_per_source", test: "TestFactsAreOnce"},
	),
	in("migrations/00003_schedules.sql", "internal/scheduler", "",
		mutation{what: "a spell that is recorded once", from: "CREATE UNIQUE INDEX schedule_event_spell_once", to: "CREATE INDEX schedule_event_spell_once", test: "TestFactsAreOnce"},
		mutation{what: "an account that never changes", from: "CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.schedule_events", to: "CREATE TRIGGER immutable BEFORE TRUNCATE ON ql3.schedule_events", test: "TestPruneDeletesOnlyWhatIsPastTheHorizon"},
	),
	in("migrations/00004_identity.sql", "internal/policy", "TestFactsAreAppendOnly",
		mutation{what: "bindings that never change", from: "CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.project_role_bindings", to: "CREATE TRIGGER immutable BEFORE DELETE ON ql3.project_role_bindings"},
		mutation{what: "an audit that never changes", from: "CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON ql3.security_audit_events", to: "CREATE TRIGGER immutable BEFORE DELETE ON ql3.security_audit_events"},
	),
	in("migrations/00004_identity.sql", "internal/policy", "",
		mutation{what: "a change of a role that is made once", from: "CONSTRAINT binding_mutation_once UNIQUE", to: "", test: "TestBindingMutationIsOnce"},
	),
	in("migrations/00004_identity.sql", "internal/oidc", "",
		mutation{what: "a User that is one row", from: "CONSTRAINT user_once UNIQUE (issuer, subject)", to: "CONSTRAINT user_once CHECK (true)", test: "TestUserIsOneRow"},
	))
