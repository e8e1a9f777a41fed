package oidc

import (
	"fmt"
	"testing"
	"time"
)

// stoppedLimiter is one in which no time passes, so that nothing that was taken comes back.
func stoppedLimiter() *Limiter {
	l, stopped := NewLimiter(), time.Now()
	l.Now = func() time.Time { return stopped }
	return l
}

func TestLimiter(t *testing.T) {
	l := stoppedLimiter()
	for i := range l.browsers.burst {
		if wait, ok := l.Allow("alice's browser", "192.0.2.1"); !ok {
			t.Fatalf("Allow() number %d = %v", i, wait)
		}
	}
	if wait, ok := l.Allow("alice's browser", "192.0.2.1"); ok || wait <= 0 || wait > 3*time.Second {
		t.Errorf("Allow() past the burst = %v, %v, want a wait", wait, ok)
	}
	if _, ok := l.Allow("bob's browser", "192.0.2.1"); !ok {
		t.Error("another browser at the same address is limited")
	}
	for range l.peers.burst {
		l.Allow("", "192.0.2.1") // without a binder, by address alone
	}
	if _, ok := l.Allow("", "192.0.2.1"); ok {
		t.Error("an address without a browser is not limited")
	}
	if _, ok := l.Allow("", "192.0.2.2"); !ok {
		t.Error("another address is limited")
	}
}

// However many addresses there are, and however often each asks, there is a limit for all of them.
func TestLimiterOfEverybody(t *testing.T) {
	l := stoppedLimiter()
	for range 2 * l.all.burst {
		l.AllowStart("", "192.0.2.1") // what one address is refused, it takes from nobody
	}
	for i := range l.all.burst - l.peers.burst {
		if wait, ok := l.AllowStart("", fmt.Sprint("address ", i)); !ok {
			t.Fatalf("Allow() of address %d = %v", i, wait)
		}
	}
	for i := range l.all.burst {
		if _, ok := l.AllowStart("", fmt.Sprint("another address ", i)); ok {
			t.Fatalf("address %d was allowed past the burst", i)
		}
	}
	if wait, ok := l.AllowStart("", "alice's"); ok {
		t.Errorf("a start past the limit of all = %v, want a wait", wait)
	}
	if wait, ok := l.Allow("alice's browser", "alice's"); !ok {
		t.Errorf("what is no start waits %v for the starts of others", wait)
	}
}

// Many keys do not fill the memory, and do not free one that is in use of its limit.
func TestLimiterIsBounded(t *testing.T) {
	b := bucket{rate: 0.001, burst: 1}
	now := time.Now()
	b.take("mine", now)
	for i := range 3 * maxBuckets {
		b.take(string(rune(i))+"x", now)
		if i%1000 == 0 && b.take("mine", now) == 0 {
			t.Fatalf("after %d others the limit was forgotten", i)
		}
	}
	if n := len(b.new) + len(b.old); n > 2*maxBuckets {
		t.Errorf("%d limits are kept, want at most %d", n, 2*maxBuckets)
	}
}

// One host has a whole /64 of IPv6, and one address of IPv4.
func TestNetwork(t *testing.T) {
	for peer, want := range map[string]string{"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2::%eth0": "2001:db8:1:2::/64",
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "::ffff:192.0.2.1", "": "", "unix": "unix"} {
		if got := network(peer); got != want {
			t.Errorf("network(%q) = %q, want %q", peer, got, want)
		}
	}
}
