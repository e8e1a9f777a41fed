package pg

import (
	"context"
	"time"
)

// ChangesChannel is told that a Run, a Schedule or a claim has changed. The channel is all that is told.
const ChangesChannel = "ql3_changes"

// hintGap is the least time between two hints of one process.
const hintGap = 250 * time.Millisecond

// Hints tells whoever listens on a channel that something has changed. It does so after the change has been committed, in
// a transaction of its own and a bounded number of times a second: a NOTIFY inside the change would hold one lock of the
// whole server until that change is on disk, and let no other commit pass that also notifies.
//
// A process that dies between the two loses its hint, as it would be lost to whoever is not listening: a hint is never
// needed, and whoever uses it looks by himself once in a while. A nil *Hints tells nobody.
type Hints struct {
	pool    Querier
	channel string
	dirty   chan struct{}
}

// NewHints returns Hints that are sent on channel while [Hints.Run] runs.
func NewHints(pool Querier, channel string) *Hints {
	return &Hints{pool: pool, channel: channel, dirty: make(chan struct{}, 1)}
}

// Changed says that something has been committed. It never blocks.
func (h *Hints) Changed() {
	if h == nil {
		return
	}
	select {
	case h.dirty <- struct{}{}:
	default: // one is about to be sent
	}
}

// Run sends hints until ctx ends. What cannot be sent is reported and dropped.
func (h *Hints) Run(ctx context.Context, report func(error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.dirty:
		}
		if err := h.send(ctx); err != nil && ctx.Err() == nil {
			report(err)
		}
		gap := time.NewTimer(hintGap)
		select {
		case <-ctx.Done():
		case <-gap.C:
		}
		gap.Stop()
	}
}

// send waits for no disk: there is nothing to lose.
func (h *Hints) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	_, err := h.pool.Exec(ctx, `SELECT pg_notify($1, '') FROM set_config('synchronous_commit', 'off', true)`, h.channel)
	return err
}
