package oidc

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Limiter bounds how often sign-in is started and answered: by browser, far above that by address, for a whole office may
// share one, and starts also in all, since addresses are cheap and each start leaves a row. It limits one replica; nothing
// else rests on it.
type Limiter struct {
	// Now is the clock, which a test may stop.
	Now func() time.Time

	browsers, peers, all bucket
}

// NewLimiter allows a browser 20 at once and one every 2 s, a peer 300 at once and 10 a second, and everybody 1,000 at once
// and 50 a second.
func NewLimiter() *Limiter {
	return &Limiter{
		Now:      time.Now,
		browsers: bucket{rate: rate.Every(2 * time.Second), burst: 20},
		peers:    bucket{rate: 10, burst: 300},
		all:      bucket{rate: 50, burst: 1000},
	}
}

// Allow takes one for the browser that holds binder, "" if it holds none, and for its peer address. When there is none
// left it returns after how long there is. It takes from nobody else: what strangers do must not keep those who are signed
// in from verifying, nor the identity provider from ending sessions.
func (l *Limiter) Allow(binder, peer string) (retryAfter time.Duration, ok bool) {
	now := l.Now()
	if wait := l.peers.take(network(peer), now); wait > 0 {
		return wait, false
	}
	if binder != "" {
		if wait := l.browsers.take(binder, now); wait > 0 {
			return wait, false
		}
	}
	return 0, true
}

// AllowStart is [Limiter.Allow] for what anybody may begin and what leaves a row: there is a limit for all of it together.
// What a browser or an address is refused, it takes from nobody else.
func (l *Limiter) AllowStart(binder, peer string) (retryAfter time.Duration, ok bool) {
	if wait, ok := l.Allow(binder, peer); !ok {
		return wait, false
	}
	wait := l.all.take("", l.Now())
	return wait, wait == 0
}

// network is what one who has an address has: of IPv6 it is the /64, which is what a host is given.
func network(peer string) string {
	a, err := netip.ParseAddr(peer)
	if err != nil || !a.Is6() || a.Is4In6() {
		return peer
	}
	return netip.PrefixFrom(a.WithZone(""), 64).Masked().String()
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
