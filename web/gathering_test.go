package web

import (
	"context"
	"errors"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
)

// Whoever asks while the same is being read is told what is read after that, all of them what one reading said.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathering
		var begun atomic.Int64 // readings
		read := func(context.Context) (int64, error) {
			n := begun.Add(1)
			<-time.After(time.Second)
			return n, nil
		}
		var all sync.WaitGroup
		ask := func(of string, want int64) {
			all.Go(func() {
				if got, err := together(t.Context(), &g, "runs", of, read); got != want || err != nil {
					t.Errorf("together() of %s = %d, %v, want what reading %d said", of, got, err, want)
				}
			})
			synctest.Wait()
		}
		ask("lab", 1)
		for range 20 {
			ask("lab", 3) // the first had begun
		}
		ask("ops", 2) // waits for nobody
		<-time.After(1500 * time.Millisecond)
		ask("lab", 4) // the third had begun
		all.Wait()
		ask("lab", 5) // none was under way
		all.Wait()
		synctest.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.readings) > 0 {
			t.Errorf("%d readings are kept when all are over", len(g.readings))
		}
	})
}

// A reading that fails, or panics, fails those who asked for it, and none after it. Whoever leaves ends nobody's reading.
func TestTogetherWhenAReadingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathering
		after := func(d time.Duration, end func() (int, error)) func(context.Context) (int, error) {
			return func(ctx context.Context) (int, error) {
				select {
				case <-time.After(d):
					return end()
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
		}
		one := func() (int, error) { return 1, nil }
		var all sync.WaitGroup
		ask := func(ctx context.Context, read func(context.Context) (int, error), want int, says string) {
			all.Go(func() {
				got, err := together(ctx, &g, "runs", "lab", read)
				if got != want || (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("together() = %d, %v, want %d and an error that says %q", got, err, want, says)
				}
			})
			synctest.Wait()
		}
		ask(t.Context(), after(time.Second, func() (int, error) { return 0, errors.New("no database") }), 0, "no database")
		ask(t.Context(), after(time.Second, func() (int, error) { panic("broken") }), 0, "broken")
		ask(t.Context(), after(time.Second, one), 0, "broken") // asked together with the one before
		<-time.After(1500 * time.Millisecond)
		leaving, leave := context.WithCancel(t.Context())
		ask(leaving, after(time.Second, one), 0, "canceled")
		ask(t.Context(), after(time.Hour, one), 1, "")
		leave()
		all.Wait()
		ask(t.Context(), after(time.Hour, one), 0, "deadline")
		all.Wait()
	})
}

// What nobody waits for any more is not read, and nobody waits for it to end.
func TestTogetherWhenAllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathering
		var begun, ended atomic.Int64
		var all sync.WaitGroup
		ask := func(ctx context.Context) {
			all.Go(func() {
				_, err := together(ctx, &g, "runs", "lab", func(ctx context.Context) (int, error) {
					begun.Add(1)
					defer ended.Add(1)
					select {
					case <-time.After(time.Second):
						return 1, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				})
				if (err != nil) != (ctx.Err() != nil) {
					t.Errorf("together() = %v", err)
				}
			})
			synctest.Wait()
		}
		expect := func(when string, begins, ends int64) {
			t.Helper()
			synctest.Wait()
			if begun.Load() != begins || ended.Load() != ends {
				t.Errorf("%s, %d readings have begun and %d ended, want %d and %d", when, begun.Load(), ended.Load(), begins, ends)
			}
		}
		readers := make([]context.Context, 6)
		leave := make([]context.CancelFunc, len(readers))
		for i := range readers {
			readers[i], leave[i] = context.WithCancel(t.Context())
		}
		ask(readers[0])
		ask(readers[1])
		ask(readers[2])
		leave[1]()
		expect("while one reads and one waits", 1, 0)
		leave[0]()
		expect("when who was read for has left", 2, 1)
		ask(readers[3])
		leave[3]()
		expect("when who waited has left", 2, 1)
		ask(readers[4]) // what was for the one before is over, unread
		leave[2]()
		expect("when all before have left", 3, 2)
		ask(readers[5])
		leave[5]()
		all.Wait()
		expect("at the end", 3, 3)
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.readings) > 0 {
			t.Errorf("%d readings are kept when all are over", len(g.readings))
		}
		leave[4]()
	})
}

// A list that many ask for at once is each one's own: of their Projects, in their language, and after they asked.
func TestListsThatAreReadTogether(t *testing.T) {
	w := newWorld(t)
	other := runtest.Admit(t, w.Database, "growth", "daily", w.nowMS-9, w.nowMS)
	c := config(t, w.Database, "")
	h := New(c)
	readerIn := func(subject string, projects ...string) http.Handler {
		p := signIn(t, c, subject)
		grant(t, w.Database, p, policy.Viewer, projects...)
		return p.as(h)
	}
	ops, growth, both := readerIn("ann", "ops"), readerIn("ben", "growth"), readerIn("eve", "ops", "growth")
	readers := []struct {
		name         string
		as           http.Handler
		language     string
		ops, growths bool
		says         string
	}{
		{"one of ops", ops, "en", true, false, "</svg> failed"},
		{"one of ops who reads Chinese", ops, "zh-CN", true, false, "失败"},
		{"one of growth", growth, "en", false, true, "</svg> queued"},
		{"one of both", both, "en", true, true, "</svg> failed"},
	}
	super, release := w.Super(t), w.locked(t, "runs")
	var all sync.WaitGroup
	for range 5 {
		for _, r := range readers {
			all.Go(func() {
				page := get(t, r.as, "/runs", "Accept-Language", r.language)
				if page.StatusCode != http.StatusOK || strings.Contains(page.body, w.failed.String()) != r.ops || strings.Contains(page.body, other.String()) != r.growths ||
					!strings.Contains(page.body, r.says) {
					t.Errorf("%s is shown %d %s", r.name, page.StatusCode, page.body)
				}
			})
		}
	}
	pgtest.AwaitLocks(t, super, 3) // a reading of each kind has begun
	release()
	all.Wait()
}

// Who has waited for another reading is told how long ago things were by when their own was made, of Runs and in the overview.
func TestRowsAreDatedByTheirReading(t *testing.T) {
	w := newWorld(t)
	c := config(t, w.Database, "")
	s, p := newServer(c), signIn(t, c, "ann")
	grant(t, w.Database, p, policy.Viewer, "ops")
	overview := p.as(s.handler())
	super, release := w.Super(t), w.locked(t, "runs")
	var all sync.WaitGroup
	var begun atomic.Int64 // no second reading has, before this
	read := func(nowMS, waitedMS int64) {
		all.Go(func() {
			list, err := s.readRuns(t.Context(), run.Filter{Projects: []string{"ops"}}, spot{}, nowMS, true)
			if err != nil {
				t.Error(err)
				return
			}
			ago, err := strconv.ParseFloat(list.rows[0].Created.Ago, 64)
			if atMS := list.Runs[0].CreatedAtMS + int64(math.Round(ago*1000)); err != nil || atMS < nowMS+waitedMS {
				t.Errorf("who asked at %d and waited for %d ms is told of %d: %v", nowMS, waitedMS, atMS, err)
			}
		})
		all.Go(func() {
			page := get(t, overview, "/")
			m := asOf.FindStringSubmatch(page.body)
			if m == nil {
				t.Errorf("the overview is %d %s", page.StatusCode, page.body)
				return
			}
			if at, err := time.Parse(time.RFC3339, m[1]); err != nil || waitedMS > 0 && at.UnixMilli() < begun.Load() {
				t.Errorf("the overview of who asked at %d and for whom it was read after %d is as of %s: %v", nowMS, begun.Load(), m[1], err)
			}
		})
	}
	read(runtest.Clock(t, super), 0)
	pgtest.AwaitLocks(t, super, 1+atOnce)
	asked := runtest.Clock(t, super)
	read(asked, 20)
	for s.gathering.waits() < 2 {
		// the second readings are asked for
	}
	for waits := runtest.Clock(t, super); begun.Load() < waits+20; { // the clock goes on
		begun.Store(runtest.Clock(t, super))
	}
	release()
	all.Wait()
}

var asOf = regexp.MustCompile(`class="as-of">.*?datetime="([^"]+)"`)

// waits is how many readings that have not begun somebody waits for.
func (g *gathering) waits() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.readings {
		if x.next != nil {
			n++
		}
	}
	return n
}
