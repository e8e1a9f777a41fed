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
