package pg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/migrations"
)

// counting is a Querier that holds every statement up until it is let go.
type counting struct {
	pg.Querier
	begun chan struct{}
	letGo chan struct{}
}

func (c counting) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c.begun <- struct{}{}
	<-c.letGo
	return c.Querier.Exec(ctx, sql, args...)
}

func TestHints(t *testing.T) {
	d := pgtest.New(t)
	e := listen(t, d.URL(migrations.RoleConsole), "changes")
	next(t, e.woken, "wake-up when listening has begun")
	c := counting{Querier: d.Pool(t, migrations.RoleRuntime), begun: make(chan struct{}, 100), letGo: make(chan struct{}, 100)}
	h := pg.NewHints(c, "changes")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); h.Run(ctx, func(err error) { t.Errorf("report(%v)", err) }) }()

	h.Changed()
	next(t, c.begun, "first hint")
	for range 50 { // while the first is under way: it may be too early for these
		h.Changed()
	}
	c.letGo <- struct{}{}
	next(t, e.woken, "wake-up for the first hint")
	next(t, c.begun, "hint for what changed meanwhile")
	c.letGo <- struct{}{}
	next(t, e.woken, "wake-up for what changed meanwhile")
	stop()
	<-ended
	if n := len(c.begun) + len(e.woken); n != 0 {
		t.Errorf("%d hints or wake-ups more, want one for all that changed meanwhile", n)
	}
}

func TestHintsThatNobodySends(t *testing.T) {
	var none *pg.Hints
	none.Changed()
	h := pg.NewHints(nil, "changes")
	for range 3 {
		h.Changed() // does not block although nothing runs
	}
}
