package oidc

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Limiter bounds how often sign-in is started and answered: by browser, far above that by address, for a whole office may
// share one, and in all, since addresses are cheap and each time may leave a row. It limits one replica; nothing else rests
// on it.
type Limiter struct {
	browsers, peers, all bucket
}

// NewLimiter allows a browser 20 at once and one every 2 s, a peer 300 at once and 10 a second, and everybody 1,000 at once
// and 50 a second.
func NewLimiter() *Limiter {
	return &Limiter{
		browsers: bucket{rate: rate.Every(2 * time.Second), burst: 20},
		peers:    bucket{rate: 10, burst: 300},
		all:      bucket{rate: 50, burst: 1000},
	}
}

// Allow takes one for the browser that holds binder, "" if it holds none, and for its peer address. When there is none
// left it returns after how long there is. What a browser or an address is refused, it takes from nobody else.
func (l *Limiter) Allow(binder, peer string) (retryAfter time.Duration, ok bool) {
	now := time.Now()
	if wait := l.peers.take(peer, now); wait > 0 {
		return wait, false
	}
	if binder != "" {
		if wait := l.browsers.take(binder, now); wait > 0 {
			return wait, false
		}
	}
	wait := l.all.take("", now)
	return wait, wait == 0
}

const maxBuckets = 10_000

// A bucket holds a limit for each key. When it is full, those that were not used since it was last full are forgotten.
type bucket struct {
	rate  rate.Limit
	burst int

	mu       sync.Mutex
	new, old map[string]*rate.Limiter
}

func (b *bucket) take(key string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.of(key).ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

func (b *bucket) of(key string) *rate.Limiter {
	if l := b.new[key]; l != nil {
		return l
	}
	l := b.old[key]
	if l == nil {
		l = rate.NewLimiter(b.rate, b.burst)
	}
	if b.new == nil || len(b.new) >= maxBuckets {
		b.old, b.new = b.new, map[string]*rate.Limiter{}
	}
	b.new[key] = l
	return l
}
