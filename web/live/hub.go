// Package live keeps open pages current.
//
// A [Hub] tells whoever subscribed that something may have changed; what has, a subscriber reads for itself, with its own
// reader's permissions, and so a hint that is lost, late or invented shows nobody anything that is not so. Subscribers are
// bounded, per user and in all; one that is slow misses hints and never holds up another. A [Stream] is the connection
// over which a subscriber's page is told: server-sent events, as the HTML standard has them (section 9.2).
package live

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
)

// How many streams there may be.
const (
	PerUser    = 5 // one a tab, and one connection fewer than a browser opens to a host by HTTP/1.1: a further page can still be had
	PerReplica = 512
)

var (
	// ErrTooMany reports that the user has as many streams as one may have, or the replica has.
	ErrTooMany = errors.New("too many streams")
	// ErrClosed reports that the replica is stopping.
	ErrClosed = errors.New("no more streams: stopping")
)

// A Hub spreads hints. Its zero value is not usable; see [New].
type Hub struct {
	mu    sync.Mutex
	subs  map[*Subscription]struct{}
	users map[uuid.UUID]int
	done  chan struct{}
	ended bool
	hints int64
}

// New returns a Hub without subscribers.
func New() *Hub {
	return &Hub{subs: map[*Subscription]struct{}{}, users: map[uuid.UUID]int{}, done: make(chan struct{})}
}

// A Subscription is told that something may have changed.
type Subscription struct {
	Changed <-chan struct{} // several hints that nobody took yet are one
	Done    <-chan struct{} // closed when the hub is
	changed chan struct{}
	hub     *Hub
	user    uuid.UUID
	once    sync.Once
}

// Subscribe begins a subscription of user's, which its holder must [Subscription.Close]. It returns [ErrTooMany] or
// [ErrClosed].
func (h *Hub) Subscribe(user uuid.UUID) (*Subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended:
		return nil, ErrClosed
	case h.users[user] >= PerUser || len(h.subs) >= PerReplica:
		return nil, ErrTooMany
	}
	changed := make(chan struct{}, 1)
	s := &Subscription{Changed: changed, changed: changed, Done: h.done, hub: h, user: user}
	h.subs[s] = struct{}{}
	h.users[user]++
	return s, nil
}

// Close ends the subscription. It may be called again.
func (s *Subscription) Close() {
	s.once.Do(func() {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		delete(s.hub.subs, s)
		if s.hub.users[s.user]--; s.hub.users[s.user] == 0 {
			delete(s.hub.users, s.user)
		}
	})
}

// Hint tells every subscriber. It waits for none.
func (h *Hub) Hint() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hints++
	for s := range h.subs {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// Hints is how many there have been: what was read when there were fewer may have changed since.
func (h *Hub) Hints() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hints
}

// Open is how many subscriptions there are.
func (h *Hub) Open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// Close ends every subscription and takes no more. It may be called again.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.done)
	}
}

// Run spreads a hint whenever next returns, while anybody is subscribed to hear it, until ctx ends; then it closes the hub.
// next returns when something may have changed, or an error, before which it has waited a while.
func (h *Hub) Run(ctx context.Context, next func(context.Context) error) {
	defer h.Close()
	for ctx.Err() == nil {
		if err := next(ctx); err == nil {
			h.Hint()
		}
	}
}
