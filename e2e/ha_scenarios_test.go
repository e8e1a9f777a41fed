//go:build ha

package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg/pgtest"

	fixture "github.com/qinglong/console/internal/run"
)

// Between the loss of a primary and the next there is none, and the standby is not taken for one.
func (h *ha) noPrimary() {
	h.lose()
	h.gate(func() bool { return h.ready(http.StatusServiceUnavailable) }, "both replicas are not ready without a primary")
	for _, e := range h.endpoints {
		e.point(h.pair.standby.address(h.T))
	}
	h.gate(func() bool { return h.says("standby") || h.says("read only") }, "a standby is not taken for a primary: the gates say so")
	for _, r := range h.replicas {
		status, _ := r.get(h, "/livez")
		h.is(status == http.StatusOK, "the replica lives on meanwhile")
	}
	for _, e := range h.endpoints {
		e.cut()
	}
	h.promote()
}

// says reports whether both replicas name that gate as the reason why they are not ready.
func (h *ha) says(gate string) bool {
	for _, r := range h.replicas {
		if status, body := r.get(h, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, gate) {
			return false
		}
	}
	return true
}

// A held claim is what a replica has on the Schedules.
type held struct {
	Count   int
	Expires int64
}

// claims are the claims of the first replica that hold by n's clock.
func (h *ha) claims(n *node) held {
	return one(h, n.super, pgx.RowToStructByPos[held], `SELECT count(*), coalesce(max(claim_expires_at_ms), 0) FROM ql3.trigger_schedules
		WHERE claim_owner LIKE $1 AND claim_expires_at_ms > extract(epoch FROM clock_timestamp()) * 1000`, h.replicas[0].actor())
}

// The replica that holds a claim is frozen, and so is its claim: on the new primary it stands until it expires, by that
// server's clock, and not a moment less. Thawed, the replica commits nothing.
func (h *ha) claimHeld() {
	frozen := h.replicas[0]
	h.await(h.endpoints[0].set("ql3_runtime", beginCommit, false), "a replica has claimed and is about to commit")
	frozen.freeze()
	claims := h.claims(h.pair.primary)
	h.is(claims.Count > 0 && h.claims(h.pair.standby) == claims, "its %d claims are visible on the standby", claims.Count)
	h.failover()
	h.is(h.claims(h.pair.primary).Count == claims.Count || clockMS(h, h.pair.primary.super) >= claims.Expires, "the claims hold on the new primary until they expire")
	h.replicas = h.replicas[1:]
	h.gate(func() bool { return h.takenFrom(frozen, claims.Expires) >= claims.Count }, "the other replica has taken all of them over")
	acquired := claims.Expires - 3000
	h.is(h.takenFrom(frozen, acquired) == h.takenFrom(frozen, claims.Expires), "none of them before its expiry by the new primary's clock")
	h.replicas = append([]*replica{frozen}, h.replicas...)
	frozen.thaw()
}

// takenFrom counts the claims of r that somebody has taken over since then.
func (h *ha) takenFrom(r *replica, sinceMS int64) int {
	return pgtest.Value[int](h, h.pair.primary.super, `SELECT count(*) FROM ql3.schedule_events WHERE type = 'taken_over' AND reason LIKE 'the claim of ' || $1 AND created_at_ms >= $2`,
		r.actor(), sinceMS)
}

// The replica is alive and about to commit when the primary goes: what it decided is gone with the connection.
func (h *ha) betweenClaimAndCommit() {
	h.await(h.endpoints[0].set("ql3_runtime", beginCommit, false), "a replica has claimed and is about to commit")
	claims := h.claims(h.pair.standby)
	h.is(claims.Count > 0, "its %d claims are visible on the standby", claims.Count)
	h.failover()
	h.gate(func() bool { return h.takenFrom(h.replicas[0], claims.Expires) >= claims.Count }, "the claims are taken over after their expiry")
}

// The COMMIT of an admission is confirmed by the standby, but the replica does not learn of it before the primary goes.
func (h *ha) schedulerAnswerLost() {
	h.await(h.endpoints[0].set("ql3_runtime", commitSent, true), "a replica's COMMIT is done and its answer is lost")
	const newest = `SELECT coalesce(max(id::text), '') FROM ql3.runs r WHERE EXISTS (SELECT FROM ql3.run_events e WHERE e.run_id = r.id AND e.actor_id LIKE $1)`
	run := pgtest.Value[string](h, h.pair.primary.super, newest, h.replicas[0].actor())
	h.is(run != "" && pgtest.Value[string](h, h.pair.standby.super, newest, h.replicas[0].actor()) == run, "the standby has the Run %s", run)
	h.failover()
	h.is(pgtest.Value[int](h, h.pair.primary.super, "SELECT count(*) FROM ql3.runs WHERE id = $1::uuid", run) == 1, "the new primary has it")
}

// lostAnswer submits the form to the first replica, whose COMMIT succeeds and gets no answer, and loses the primary. The
// same form at the other replica then says what happened.
func (h *ha) lostAnswer(s submission) (again shown) {
	trap := h.endpoints[0].set("ql3_run_manager", commitSent, true)
	first := make(chan shown, 1)
	go func() { first <- h.operator.submit(h, h.replicas[0], s) }()
	h.await(trap, "the COMMIT is done and its answer is lost")
	h.failover()
	got := <-first
	h.is(got.status == http.StatusServiceUnavailable && strings.Contains(got.body, s.form.Get("mutation")), "the answer is %d, with the same form to send again", got.status)
	h.gate(func() bool { return h.ready(http.StatusOK) }, "both replicas are ready again")
	return h.operator.submit(h, h.replicas[1], s)
}

func (h *ha) retryAnswerLost() {
	source := failed(h.T, h.pair.primary, 1)[0]
	again := h.lostAnswer(h.operator.preview(h, h.replicas[0], h.pair.primary, "retry", source))
	h.want.retried(1)
	h.is(again.status == http.StatusSeeOther && strings.Contains(again.location, "retry=before"), "the same form is answered with the Run that it made: %d %s", again.status, again.location)
}

func (h *ha) stopAnswerLost() {
	running := executed(h.T, h.pair.primary, 1, fixture.Outcome{})[0]
	again := h.lostAnswer(h.operator.preview(h, h.replicas[0], h.pair.primary, "stop", running))
	h.want.Allowed++
	h.want.Stops++
	h.is(again.status == http.StatusSeeOther && strings.Contains(again.location, "stop=before"), "the same form is answered as before: %d %s", again.status, again.location)
}

const quota = 64

// The whole quota is used up through both replicas, and one retry more is refused, before and after.
func (h *ha) wholeQuota() {
	const newest = "SELECT coalesce(max(created_at_ms), 0) FROM ql3.runs WHERE retry_of_run_id IS NOT NULL"
	whole := pgtest.Value[int64](h, h.pair.primary.super, newest) + time.Minute.Milliseconds()
	<-time.After(time.Duration(whole-clockMS(h, h.pair.primary.super)) * time.Millisecond)
	var forms []submission
	for i, source := range failed(h.T, h.pair.primary, quota+1) {
		forms = append(forms, h.operator.preview(h, h.replicas[i%2], h.pair.primary, "retry", source))
	}
	began := time.Now()
	made := h.submitAll(forms[:quota])
	h.want.retried(quota)
	h.is(len(made) == quota, "%d of %d retries made a Run, in %.1f s", len(made), quota, time.Since(began).Seconds())
	got := h.operator.submit(h, h.replicas[0], forms[quota])
	h.is(got.status == http.StatusTooManyRequests, "one more is refused: %d", got.status)
	h.failover()
	h.gate(func() bool { return h.ready(http.StatusOK) }, "both replicas are ready again")
	if since := time.Since(began); since < 50*time.Second {
		got = h.operator.submit(h, h.replicas[1], forms[quota])
		h.is(got.status == http.StatusTooManyRequests, "one more is still refused, %.1f s after the first: %d", since.Seconds(), got.status)
	}
	again := h.submitAll(forms[:quota])
	h.is(len(again) == quota && sameRuns(made, again), "every form sent again is answered with the Run that it made")
}

// submitAll sends the forms in turn to both replicas, which work at the same time, and returns where each led.
func (h *ha) submitAll(forms []submission) map[string]string {
	made := map[string]string{}
	var mu sync.Mutex
	var both sync.WaitGroup
	for k, r := range h.replicas {
		both.Go(func() {
			for i := k; i < len(forms); i += len(h.replicas) {
				got := h.operator.submit(h, r, forms[i])
				path, _, _ := strings.Cut(got.location, "?")
				if _, err := uuid.Parse(strings.TrimPrefix(path, "/runs/")); err == nil && got.status == http.StatusSeeOther {
					mu.Lock()
					made[forms[i].form.Get("mutation")] = path
					mu.Unlock()
				}
			}
		})
	}
	both.Wait()
	return made
}

func sameRuns(a, b map[string]string) bool {
	for mutation, run := range a {
		if b[mutation] != run {
			return false
		}
	}
	return len(a) == len(b)
}

// Without its standby the primary confirms nothing, and the replicas call nothing done. What it did all the same is
// gone with it: the same form makes the Run on the new primary. The old one, up again beside the new one, has the Run
// on its own timeline and may not say so.
func (h *ha) unconfirmed() {
	form := h.operator.preview(h, h.replicas[0], h.pair.primary, "retry", failed(h.T, h.pair.primary, 1)[0])
	if err := h.pair.standby.Stop(); err != nil {
		h.Fatal(err)
	}
	first := make(chan shown, 1)
	go func() { first <- h.operator.submit(h, h.replicas[0], form) }()
	h.gate(func() bool { return h.pair.primary.awaitsStandby(h) }, "the COMMIT of a retry waits for a standby that is gone")
	got := <-first
	h.is(got.status == http.StatusServiceUnavailable && strings.Contains(got.body, form.form.Get("mutation")), "it is not called done: %d, with the same form to send again", got.status)
	h.lose()
	h.pair.standby.start(h.T)
	h.pair.standby.super.Close()
	h.pair.standby.connect(h.T)
	h.promote()
	h.gate(h.admitting(), "the replicas work on the new primary")
	h.splitBrain(form)
	again := h.operator.submit(h, h.replicas[1], form)
	h.want.retried(1)
	h.is(again.status == http.StatusSeeOther && strings.Contains(again.location, "retry=made"), "on the new primary the same form makes the Run: %d %s", again.status, again.location)
}

// awaitsStandby reports whether a mutation of a Run is done but not confirmed.
func (n *node) awaitsStandby(t testing.TB) bool {
	t.Helper()
	return pgtest.Value[int](t, n.super, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'ql3_run_manager' AND wait_event = 'SyncRep'") > 0
}

// submitUntil submits the form to the first replica over and over until done returns, and says how it was answered.
func (h *ha) submitUntil(form submission, done func()) map[int]bool {
	said, end, ended := map[int]bool{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			said[h.operator.submit(h, h.replicas[0], form).status] = true
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	done()
	close(end)
	<-ended
	return said
}

// splitBrain starts the old primary again beside the new one and leads one replica there.
func (h *ha) splitBrain(form submission) {
	old, lost := h.pair.standby, h.endpoints[0]
	old.start(h.T)
	old.connect(h.T)
	const retries = "SELECT count(*) FROM ql3.runs WHERE retry_of_run_id::text = split_part($1, '/', 3)"
	h.is(pgtest.Value[int](h, old.super, retries, form.path) == 1 && pgtest.Value[int](h, h.pair.primary.super, retries, form.path) == 0,
		"two primaries: the old one has the Run, the new one has not")
	lost.cut()
	lost.point(old.address(h.T))
	said := h.submitUntil(form, func() {
		h.gate(func() bool { return old.awaitsStandby(h) }, "a replica that is led to the old primary waits there for the standby")
	})
	h.is(len(said) == 1 && said[http.StatusServiceUnavailable], "it never calls the retry done: it answers %v", slices.Collect(maps.Keys(said)))
	h.gate(func() bool {
		status, _ := h.replicas[0].get(h, "/readyz")
		return status == http.StatusServiceUnavailable
	}, "and is not ready")
	if err := old.Kill(); err != nil {
		h.Fatal(err)
	}
	old.super.Close()
	lost.cut()
	h.point()
	h.gate(func() bool { return h.ready(http.StatusOK) }, "led back, it is ready again")
}
