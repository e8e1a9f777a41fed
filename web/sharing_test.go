package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qinglong/console/internal/run/runtest"
)

func TestShare(t *testing.T) {
	var hints atomic.Int64
	n := 0
	count := func(context.Context) (int, error) { n++; return n, nil }
	fail := func(context.Context) (int, error) { n++; return 0, errors.New("no database") }
	s := &sharing{moment: time.Hour, hints: hints.Load}
	type filter struct{ Projects []string }
	lab, both := filter{[]string{"lab"}}, filter{[]string{"lab", "ops"}}
	steps := []struct {
		name string
		do   func()
		of   any
		read func(context.Context) (int, error)
		want int
	}{
		{"the first", func() {}, lab, count, 1},
		{"the same again", func() {}, lab, count, 1},
		{"what a reader of other Projects asks for", func() {}, both, count, 2},
		{"a name that looks like two", func() {}, filter{[]string{"lab ops"}}, count, 3},
		{"after a hint", func() { hints.Add(1) }, lab, count, 4},
		{"after a moment", func() {
			for _, x := range s.readings {
				x.began = x.began.Add(-2 * time.Hour)
			}
		}, lab, count, 5},
		{"a failure", func() { hints.Add(1) }, lab, fail, 0},
		{"after a failure", func() {}, lab, count, 7},
	}
	for _, step := range steps {
		step.do()
		if got, _ := share(t.Context(), s, "runs", step.of, step.read); got != step.want {
			t.Errorf("%s: share() = %d, want %d", step.name, got, step.want)
		}
	}
	if got, _ := share(t.Context(), s, "schedules", lab, count); got != 8 {
		t.Errorf("another kind of the same filter: share() = %d, want 8", got)
	}
	for i := range 3 * mostShared {
		share(t.Context(), s, "runs", i, count)
		if len(s.readings) > mostShared {
			t.Fatalf("after %d different readings %d are kept", i, len(s.readings))
		}
	}
}

// Whoever asks while a reading is under way waits for it; of one that fails, or panics, nobody is told.
func TestShareWhileReading(t *testing.T) {
	for name, end := range map[string]func() (int, error){
		"done":      func() (int, error) { return 1, nil },
		"failed":    func() (int, error) { return 0, errors.New("the reader has left") },
		"panicking": func() (int, error) { panic("broken") },
	} {
		t.Run(name, func(t *testing.T) {
			s := &sharing{moment: time.Hour, hints: func() int64 { return 0 }}
			entered, release := make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() {
				defer func() { recover() }()
				share(context.Background(), s, "runs", 1, func(context.Context) (int, error) { close(entered); <-release; return end() })
			})
			<-entered
			var own atomic.Int64
			all.Go(func() {
				got, err := share(context.Background(), s, "runs", 1, func(context.Context) (int, error) { own.Add(1); return 1, nil })
				if got != 1 || err != nil {
					t.Errorf("share() beside a reading = %d, %v, want 1", got, err)
				}
			})
			gone, leave := context.WithCancel(t.Context())
			leave()
			if _, err := share(gone, s, "runs", 1, func(ctx context.Context) (int, error) { return 0, ctx.Err() }); !errors.Is(err, context.Canceled) {
				t.Errorf("share() for somebody who has left = %v", err)
			}
			close(release)
			all.Wait()
			if want := name != "done"; (own.Load() > 0) != want {
				t.Errorf("after a reading that was %s, the other read for itself: %v, want %v", name, own.Load() > 0, want)
			}
		})
	}
}

// Whoever reads for many may leave. Then one of the others reads for them, and not each for itself.
func TestShareWhenTheFirstReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sharing{moment: time.Hour, hints: func() int64 { return 0 }}
		first, leave := context.WithCancel(t.Context())
		go share(first, s, "runs", 1, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, fmt.Errorf("count: %w", ctx.Err()) })
		synctest.Wait()
		var own atomic.Int64
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				got, err := share(t.Context(), s, "runs", 1, func(context.Context) (int, error) { own.Add(1); return 1, nil })
				if got != 1 || err != nil {
					t.Errorf("share() = %d, %v, want 1", got, err)
				}
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
		if n := own.Load(); n != 1 {
			t.Errorf("20 who waited read %d times, want once", n)
		}
	})
}

// A count is shared until something changes, and the rows beside it never are.
func TestCountsAreShared(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	c.SharedFor = time.Hour
	h := readerOf(t, w.Database, c)
	list := func() (rows, counted int) {
		var body runsJSON
		if res := get(t, h, "/runs.json"); json.Unmarshal([]byte(res.body), &body) != nil {
			t.Fatalf("GET /runs.json = %d %s", res.StatusCode, res.body)
		}
		for _, n := range body.Counts {
			counted += n.N
		}
		return len(body.Runs), counted
	}
	rows, counted := list()
	if rows != counted || rows == 0 {
		t.Fatalf("there are %d Runs and %d are counted", rows, counted)
	}
	runtest.Admit(t, w.Database, "ops", "nightly", w.nowMS, w.nowMS+1)
	if now, n := list(); now != rows+1 || n != counted {
		t.Errorf("after one more there are %d rows and %d counted, want %d and still %d", now, n, rows+1, counted)
	}
	c.Live.Hint()
	if now, n := list(); now != rows+1 || n != counted+1 {
		t.Errorf("after a hint there are %d rows and %d counted, want %d of both", now, n, rows+1)
	}
}
