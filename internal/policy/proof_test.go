package policy_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
)

// A proof is consumed once, and only while it is good by the clock of the statement that consumes it: what was read of it
// before does not count.
func TestConsumeProof(t *testing.T) {
	const proof = `
		INSERT INTO step_up_proofs (id, transaction_id, session_id, user_id, action, project_id, purpose, words, level, issuer, subject, client_id,
			auth_time_s, second_factor, cookie_hash, created_at_ms, expires_at_ms)
		SELECT $1, gen_random_uuid(), id, user_id, 'run.retry', 'ops', '[{}]', '', 'hardware', 'i', 's', 'c', ms / 1000, 'always', sha256(''), ms, ms / 1000 * 1000 + 300000
		FROM console_sessions, (SELECT ` + pg.ClockMS + ` AS ms) clock`
	tests := []struct {
		name   string
		change string
		want   bool
	}{
		{"good", `SELECT`, true},
		{"consumed", `UPDATE step_up_proofs SET consumed_at_ms = created_at_ms, consumed_mutation_id = gen_random_uuid()`, false},
		{"revoked", `UPDATE step_up_proofs SET revoked_at_ms = created_at_ms`, false},
		{"ended", `UPDATE step_up_proofs SET created_at_ms = created_at_ms - 1000, expires_at_ms = created_at_ms - 1`, false},
		{"of an authentication five minutes ago", `UPDATE step_up_proofs SET auth_time_s = auth_time_s - 300`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.exec(session(alice))
			w.exec(`ALTER TABLE step_up_proofs DROP CONSTRAINT proof_lives_five_minutes`)
			id := uuid.New()
			pgtest.Exec(t, w.super, proof, id)
			pgtest.Exec(t, w.super, tt.change)
			for again, want := range []bool{tt.want, false} {
				var ok bool
				err := pg.InTx(t.Context(), w.super, func(tx pgx.Tx) (err error) {
					ok, err = policy.ConsumeProof(t.Context(), tx, id, uuid.New())
					return err
				})
				if ok != want || err != nil {
					t.Errorf("ConsumeProof(), time %d = %v, %v, want %v", again+1, ok, err, want)
				}
			}
		})
	}
}

// Each fact of a good proof is changed alone.
func TestProblemComparesEveryPart(t *testing.T) {
	const now = 1_000_000_000
	earlier := int64(1)
	tests := []struct {
		name   string
		change func(*policy.Proof, *policy.Claim)
		want   policy.Reason
	}{
		{"good", func(*policy.Proof, *policy.Claim) {}, ""},
		{"hardware", func(p *policy.Proof, _ *policy.Claim) { p.Assurance.Level = "hardware" }, ""},
		{"another user", func(_ *policy.Proof, c *policy.Claim) { c.UserID = bob }, policy.ProofForeign},
		{"another session", func(_ *policy.Proof, c *policy.Claim) { c.SessionID = uuid.New() }, policy.ProofForeign},
		{"another cookie", func(_ *policy.Proof, c *policy.Claim) { c.CookieHash = []byte("b") }, policy.ProofForeign},
		{"no cookie on either side", func(p *policy.Proof, c *policy.Claim) { p.CookieHash, c.CookieHash = nil, nil }, policy.ProofForeign},
		{"another action", func(_ *policy.Proof, c *policy.Claim) { c.Action = policy.StopRun }, policy.ProofOtherPurpose},
		{"another project", func(_ *policy.Proof, c *policy.Claim) { c.ProjectID = "web" }, policy.ProofOtherPurpose},
		{"another Run", func(_ *policy.Proof, c *policy.Claim) { c.Subject = uuid.New() }, policy.ProofOtherPurpose},
		{"one factor", func(p *policy.Proof, _ *policy.Claim) { p.Assurance.Level = "single_factor" }, policy.ProofTooWeak},
		{"consumed", func(p *policy.Proof, _ *policy.Claim) { p.ConsumedAtMS = &earlier }, policy.ProofConsumed},
		{"revoked", func(p *policy.Proof, _ *policy.Claim) { p.RevokedAtMS = &earlier }, policy.ProofRevoked},
		{"session over", func(p *policy.Proof, _ *policy.Claim) { p.SessionLive = false }, policy.ProofRevoked},
		{"ended", func(p *policy.Proof, _ *policy.Claim) { p.ExpiresAtMS = now }, policy.ProofExpired},
		{"authenticated five minutes ago", func(p *policy.Proof, _ *policy.Claim) { p.Assurance.AuthTimeS = now/1000 - 300 }, policy.ProofExpired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, session := uuid.New(), uuid.New()
			p := policy.Proof{SessionID: session, UserID: alice, CookieHash: []byte("a"), ExpiresAtMS: now + 1, SessionLive: true, NowMS: now,
				Purpose:   policy.Purpose{Action: policy.RetryRun, ProjectID: "ops", Items: []policy.Item{{Run: run}}},
				Assurance: policy.Assurance{Level: "multi_factor", AuthTimeS: now / 1000}}
			c := policy.Claim{UserID: alice, SessionID: session, CookieHash: []byte("a"), Action: policy.RetryRun, ProjectID: "ops", Subject: run}
			tt.change(&p, &c)
			if got := p.Problem(c); got != tt.want {
				t.Errorf("Problem() = %q, want %q", got, tt.want)
			}
		})
	}
}
