package main

import "slices"

const (
	proofFile = "internal/policy/proof.go"
	fenceOf   = "internal/runmgmt/fence.go"
	retryFile = "internal/runmgmt/retry.go"
	mutations = "internal/runmgmt/mutation.go"
	retryTest = "TestRetryRefuses"
)

var proofs = slices.Concat(
	never(proofFile, "", "TestProblemComparesEveryPart",
		"p.UserID != c.UserID", "len(c.CookieHash) == 0", "p.SessionID != c.SessionID", "p.Purpose.Action != c.Action",
		"p.Purpose.ProjectID != c.ProjectID", "p.Purpose.Subject() != c.Subject", "p.ConsumedAtMS != nil", "p.RevokedAtMS != nil", "!p.SessionLive",
		`p.Assurance.Level != "multi_factor" && p.Assurance.Level != "hardware"`),
	in(proofFile, "", "TestProblemComparesEveryPart",
		mutation{what: "the browser's cookie", from: "!bytes.Equal(p.CookieHash, c.CookieHash)", to: "!bytes.Equal(c.CookieHash, c.CookieHash)"},
		mutation{what: "the proof's end", from: "p.NowMS >= p.ExpiresAtMS ||", to: ""},
		mutation{what: "the authentication's age", from: "|| p.NowMS >= p.Assurance.AuthTimeS*1000+ProofLifetimeMS", to: ""},
	),
	in(proofFile, "internal/runmgmt", "",
		mutation{what: "a session that has not ended", from: "s.revoked_at_ms IS NULL AND s.expires_at_ms > clock.ms", to: "s.expires_at_ms > clock.ms", test: retryTest + "/session_revoked"},
		mutation{what: "a session that has not expired", from: " AND s.expires_at_ms > clock.ms AND s.last_seen_at_ms", to: " AND s.last_seen_at_ms", test: retryTest + "/session_expired"},
		mutation{what: "a session that is not idle", from: " AND s.last_seen_at_ms + s.idle_ms > clock.ms", to: "", test: retryTest + "/session_idle"},
	),
	in(proofFile, "", "TestConsumeProof",
		mutation{what: "consuming it once", from: "WHERE id = $1 AND consumed_at_ms IS NULL AND revoked_at_ms IS NULL", to: "WHERE id = $1 AND revoked_at_ms IS NULL"},
		mutation{what: "consuming only what is not revoked", from: " AND revoked_at_ms IS NULL AND expires_at_ms > clock.ms", to: " AND expires_at_ms > clock.ms"},
		mutation{what: "consuming only what has not ended", from: " AND expires_at_ms > clock.ms AND auth_time_s", to: " AND auth_time_s"},
		mutation{what: "consuming only what is five minutes old at most", from: " AND auth_time_s * 1000 + $3 > clock.ms", to: " AND $3::bigint > 0"},
	),
	in(mutations, "", "",
		mutation{what: "consuming the proof", from: "ok, err := policy.ConsumeProof(ctx, tx, g.proof.ID, id)", to: "ok, err := id != uuid.Nil, error(nil)", test: "TestRetryMakesANewRun|TestOneProofContestedByTwentyMutations"},
		mutation{what: "a proof that somebody else has consumed", from: "if err == nil && !ok {", to: "if false && !ok {", test: "TestProofSpentMeanwhile"},
		mutation{what: "a proof that is older than the role", from: "if err := g.fence.checkBound(g.proof); err != nil {\n\t\treturn nil, err\n\t}", to: "", test: retryTest + "/role_revoked_and"},
		mutation{what: "the quota", from: "if x.deed.quota {", to: "if false {", test: "TestLastQuotaSlotContestedByEight"},
		mutation{what: "exact replay before the proof", from: "if made, err := x.deed.find(ctx, tx, x, x.items[0]); !errors.Is(err, run.ErrNotFound) {", to: "if made, err := x.deed.find(ctx, tx, x, x.items[0]); err != nil && !errors.Is(err, run.ErrNotFound) {", test: "TestExactReplay"},
	),
	never(fenceOf, "", retryTest+"/user_disabled", "!f.userActive"),
	never(fenceOf, "", retryTest+"/project_archived", "!f.projectActive"),
	never(fenceOf, "", retryTest+"/role_reduced", "!f.role.May(p)"),
	in(stepUpFile, "internal/runmgmt", "",
		mutation{what: "the lock of the Project in the policy fence", from: "PERFORM FROM ql3.projects p WHERE p.id = project FOR NO KEY UPDATE;", to: "", test: "TestChangesThatCommitWhileTheRetryWaits"},
		mutation{what: "the newest binding", from: "ORDER BY n.version DESC LIMIT 1", to: "ORDER BY n.version LIMIT 1", test: retryTest + "/role_reduced"},
	),
	in(stepUpFile, "internal/oidc", "",
		mutation{what: "a session's end revoking its proofs", from: "WHEN (NEW.revoked_at_ms IS NOT NULL AND OLD.revoked_at_ms IS NULL)", to: "WHEN (false)", test: "TestSignOutRevokesProofs"},
	))

var retries = slices.Concat(
	never(retryFile, "", "TestExactReplay",
		"c.UserID != x.who.user()", "c.RetryOf != i.run", "c.SourceStatus != i.status", "c.SourceVersion != i.version", "c.PlanDigest != i.digest", "c.Reason != x.words"),
	never(retryFile, "", "TestRetryComparesEveryPart",
		"s.Status != i.status", "s.Version != i.version", "s.Version != verified.Version", "s.ExecutionDigest != i.digest", "s.ExecutionDigest != verified.Digest",
		"!s.TaskEnabled", "s.NewestRetry != nil && (i.newest == nil || *i.newest != *s.NewestRetry)", "s.ParentRunID != nil", `s.ExecutionOwner != "runtime"`,
		`s.Executor != "remote_worker"`, `s.ExecutionID == ""`, "s.ExecutionID != s.SnapshotRef",
		"s == run.Lost", "!s.Terminal()", "s == run.Succeeded"),
	in(retryFile, "", "TestRetryComparesEveryPart",
		mutation{what: "the digest of what will run", from: "catalog.Verify(catalog.DomainExecution, s.ExecutionContent, s.ExecutionDigest) != nil",
			to: "catalog.Verify(catalog.DomainExecution, s.ExecutionContent, s.ExecutionDigest) != nil && false"},
	),
	in(retryFile, "", "TestRetryIsAllOrNothing|TestRetryMakesANewRun",
		mutation{what: "the allowed audit row", from: "if err := policy.WriteAudit(ctx, tx, event); err != nil {", to: "if err := error(nil); err != nil {"},
	),
	in("internal/run/retry.go", "", "TestCancelIsRequestedOnce",
		mutation{what: "asking a Run to stop only once", from: "AND version = $2 AND cancel_requested_at_ms IS NULL RETURNING", to: "AND version = $2 RETURNING"},
		mutation{what: "asking only a Run that has not changed", from: "WHERE id = $1 AND version = $2 AND cancel", to: "WHERE id = $1 AND $2::bigint > 0 AND cancel"},
	))

const (
	transactionFile = "internal/oidc/transaction.go"
	oidcStepUp      = "internal/oidc/stepup.go"
)

var signIns = slices.Concat(
	in(transactionFile, "", "",
		mutation{what: "an answer that is spent once", from: "AND kind = ANY($3) AND consumed_at_ms IS NULL AND expires_at_ms", to: "AND kind = ANY($3) AND expires_at_ms", test: "TestStateIsSpentByItsOwnBrowserOnce|TestParallelCallbacks"},
		mutation{what: "an answer that is ten minutes old at most", from: " AND expires_at_ms > `+pg.ClockMS+`\n", to: "\n", test: "TestStateIsSpentByItsOwnBrowserOnce|TestDatabaseClockJudges"},
		mutation{what: "an answer to this browser", from: "WHERE state_hash = $1 AND binder_hash = $2 AND kind", to: "WHERE state_hash = $1 AND $2::bytea IS NOT NULL AND kind", test: "TestStateIsSpentByItsOwnBrowserOnce"},
		mutation{what: "an answer to this purpose", from: "AND kind = ANY($3) AND consumed", to: "AND $3::text[] IS NOT NULL AND consumed", test: "TestCallbacksKeepToTheirOwn"},
	),
	never(oidcStepUp, "", "TestStepUpEndsWhereItBegan",
		"t.stepUp.session == nil || *t.stepUp.session != session.ID", "t.stepUp.user == nil || *t.stepUp.user != session.UserID"),
	never(oidcStepUp, "", "TestFresh", "at*1000 < t.begunAtMS-futureSkew.Milliseconds()", "at*1000 > t.spentAtMS+futureSkew.Milliseconds()",
		"at*1000+policy.ProofLifetimeMS <= t.spentAtMS"),
	never(oidcStepUp, "", "TestStepUpRefuses|TestStepUpHappensOnce", "a.Subject != session.Subject", "a.AuthTimeS <= newest"),
	in(oidcStepUp, "", "TestStepUpRefuses|TestStepUpHappensOnce",
		mutation{what: "a session that lives", from: "if err == nil && !live {", to: "if false && !live {", test: "TestStepUpRefuses|TestRequestInFlightDuringSignOut"},
		mutation{what: "an account that is active", from: "case !active:", to: "case false && !active:"},
	))
