//go:build ha

package e2e

import (
	"testing"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/run/runtest"

	fixture "github.com/qinglong/console/internal/run"
)

// failed makes Runs that have failed: the longest waiting ones.
func failed(t *testing.T, n *node, count int) []uuid.UUID {
	t.Helper()
	code := 3
	return executed(t, n, count, fixture.Outcome{Status: fixture.Failed, ExitCode: &code, Code: "exit_code"})
}

// executed admits as many Runs as are executed, so that there are enough. Each is a test of its own, at whose end the
// connections that it needed are closed.
func executed(t *testing.T, n *node, count int, o fixture.Outcome) (list []uuid.UUID) {
	t.Helper()
	db := pgtest.On(n.Server, haDatabase)
	for i := range count {
		t.Run("fixture", func(t *testing.T) {
			now := runtest.Clock(t, n.super)
			runtest.Admit(t, db, "ops", "yearly", now-int64(i), now)
			list = append(list, runtest.Execute(t, db, o))
		})
	}
	return list
}

// preview verifies, opens the page and returns the form on it.
func (o *operator) preview(t testing.TB, r *replica, n *node, action string, run uuid.UUID) submission {
	t.Helper()
	s, got, err := o.open(t.Context(), r.public(), n.super, action, run)
	if err != nil || s.form.Get("mutation") == "" {
		t.Fatalf("%s shows no form: %v %d\n%s", s.path, err, got.status, got.body)
	}
	return s
}

// submit sends the form. It fails only if there was no answer at all.
func (o *operator) submit(t testing.TB, r *replica, s submission) shown {
	t.Helper()
	got, err := o.request(t.Context(), r.public(), s.path, s.form, s.proof)
	if err != nil {
		t.Error(err)
	}
	return got
}
