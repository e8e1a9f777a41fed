package web

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever asks while the same is being read is told what is read after that, all of them what one reading said.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gathering
		var begun atomic.Int64 // readings
		read := func(context.Context) (int64, error) {
			n := begun.Add(1)
			time.Sleep(time.Second)
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
		time.Sleep(1500 * time.Millisecond)
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
		time.Sleep(1500 * time.Millisecond)
		leaving, leave := context.WithCancel(t.Context())
		ask(leaving, after(time.Second, one), 0, "canceled")
		ask(t.Context(), after(time.Hour, one), 1, "")
		leave()
		all.Wait()
		ask(t.Context(), after(time.Hour, one), 0, "deadline")
		all.Wait()
	})
}
