//go:build torture

package e2e

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/e2e/checker"
)

// A move is one thing that the plan does. The plan is made whole from its seed before anything begins, so that the same
// seed does the same things at the same times; what becomes of them is up to the machine.
type move struct {
	At    time.Duration // from the beginning; whoever is late does it as soon as he can
	Do    string
	On    string
	For   time.Duration
	Dice  uint64 // decides what can only be chosen when it is there, such as which Run
	Apply *application
	Pause *holding
}

func (s move) String() string {
	text := s.Do + " " + s.On
	if s.For > 0 {
		text += " for " + s.For.String()
	}
	return text
}

// A lane is what one actor does, one thing after the other; lanes go on at the same time.
type lane struct {
	name  string
	moves []move
}

// An application is a manifest to publish, and what it must make.
type application struct {
	Manifest  string
	Meddle    string        // what is done to its first attempt; "" for nothing
	After     time.Duration // how long that has been going on then
	For       time.Duration // how long it is frozen
	Revisions []checker.Revision
	Turns     []checker.Turn
}

// A holding is a pause, or its end.
type holding struct {
	ID               string
	Project, Trigger string
	CatchUp          bool
}

// The cast. Of the replicas the second is an hour ahead and the third twenty minutes behind, all the time.
var (
	tortureSkews     = []time.Duration{0, time.Hour, -20 * time.Minute, 0}
	tortureProjects  = []string{"alpha", "beta", "gamma"}
	tortureOperators = []string{"olga", "omar"}
)

const (
	tortureLease = 3 * time.Second
	tortureGrace = 2 * time.Second
)

// newPlan makes the lanes of a run of that length. Each has dice of its own, so that a change of one leaves the others.
func newPlan(seed uint64, length time.Duration) (lanes []lane) {
	add := func(name string, fill func(d *dice)) {
		h := fnv.New64a()
		h.Write([]byte(name))
		d := &dice{Rand: rand.New(rand.NewPCG(seed, h.Sum64())), on: name, length: length}
		fill(d)
		lanes = append(lanes, lane{name, d.moves})
	}
	for i := range tortureSkews {
		add(fmt.Sprintf("replica-%d", i+1), (*dice).replica)
	}
	add("database", (*dice).database)
	add("publisher", (*dice).publisher)
	for _, name := range tortureProjects {
		add(name, (*dice).project)
	}
	for _, name := range tortureOperators {
		add(name, (*dice).operator)
	}
	return lanes
}

// dice are what a lane is left to.
type dice struct {
	*rand.Rand
	on     string
	length time.Duration
	now    time.Duration
	moves  []move
}

// between is a time from least to most, in milliseconds.
func (d *dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64((most-least)/time.Millisecond)+1))*time.Millisecond
}

// passes lets some time pass and reports whether there is any left.
func (d *dice) passes(least, most time.Duration) bool {
	d.now += d.between(least, most)
	return d.now < d.length
}

// add adds a move at the present time, and lets it last.
func (d *dice) add(s move) {
	s.At = d.now
	if s.On == "" {
		s.On = d.on
	}
	d.moves = append(d.moves, s)
	d.now += s.For
}

// A chance is something to do, as likely as its weight.
type chance struct {
	weight int
	do     func()
}

func (d *dice) one(of ...chance) {
	sum := 0
	for _, c := range of {
		sum += c.weight
	}
	n := d.IntN(sum)
	for _, c := range of {
		if n -= c.weight; n < 0 {
			c.do()
			return
		}
	}
}

// lasting is a chance of a fault that lasts from least to most.
func (d *dice) lasting(weight int, do string, least, most time.Duration) chance {
	return chance{weight, func() { d.add(move{Do: do, For: d.between(least, most), Dice: d.Uint64()}) }}
}

// The faults. Freezing lasts longer than a lease, and so may the others.
const (
	doKill      = "kill -9"
	doFreeze    = "freeze"
	doCut       = "cut"
	doLatency   = "latency"
	doDeaf      = "half-open, nothing arrives"
	doMute      = "half-open, no answer arrives"
	doDead      = "half-open, both ways"
	doTerminate = "pg_terminate_backend"
	doCrash     = "crash PostgreSQL"
	doDisk      = "disk full"
	doDiskWAL   = "disk full, also for WAL"
)

func (d *dice) replica() {
	for d.passes(time.Second, 7*time.Second) {
		d.one(
			d.lasting(3, doKill, 200*time.Millisecond, 4*time.Second),
			d.lasting(3, doFreeze, tortureLease+500*time.Millisecond, 3*tortureLease),
			d.lasting(2, doCut, 50*time.Millisecond, 4*time.Second),
			d.lasting(2, doLatency, 2*time.Second, 8*time.Second),
			d.lasting(1, doDeaf, time.Second, 9*time.Second),
			d.lasting(1, doMute, time.Second, 9*time.Second),
			d.lasting(1, doDead, time.Second, 9*time.Second),
		)
	}
}

func (d *dice) database() {
	for d.passes(4*time.Second, 14*time.Second) {
		d.one(
			chance{4, func() { d.add(move{Do: doTerminate, Dice: d.Uint64()}) }},
			d.lasting(3, doCrash, 100*time.Millisecond, 3*time.Second),
			d.lasting(2, doDisk, time.Second, 5*time.Second),
			d.lasting(1, doDiskWAL, time.Second, 5*time.Second),
		)
	}
}

// publisher is what befalls the connections of whoever publishes.
func (d *dice) publisher() {
	for d.passes(5*time.Second, 15*time.Second) {
		d.one(
			d.lasting(1, doCut, 50*time.Millisecond, 2*time.Second),
			d.lasting(3, doLatency, 3*time.Second, 9*time.Second),
			d.lasting(1, doDeaf, time.Second, 6*time.Second),
			d.lasting(1, doMute, time.Second, 6*time.Second),
		)
	}
}

// What operators do.
const (
	doRetry      = "retry"
	doRetryTwice = "retry, the same form at two replicas at once"
	doStop       = "stop"
	doStopTwice  = "stop, the same form at two replicas at once"
)

func (d *dice) operator() {
	for d.passes(500*time.Millisecond, 3*time.Second) {
		d.one(d.lasting(3, doRetry, 0, 0), d.lasting(3, doRetryTwice, 0, 0), d.lasting(1, doStop, 0, 0), d.lasting(1, doStopTwice, 0, 0))
	}
}

func TestTorturePlanIsItsSeed(t *testing.T) {
	const length = 2 * time.Minute
	opt := cmp.AllowUnexported(lane{})
	if diff := cmp.Diff(newPlan(7, length), newPlan(7, length), opt); diff != "" {
		t.Errorf("the same seed makes another plan:\n%s", diff)
	}
	if cmp.Equal(newPlan(7, length), newPlan(8, length), opt) {
		t.Error("another seed makes the same plan")
	}
	done := map[string]int{}
	for _, l := range newPlan(7, 10*time.Minute) {
		if !slices.IsSortedFunc(l.moves, func(a, b move) int { return int(a.At - b.At) }) {
			t.Errorf("the lane %s goes back in time", l.name)
		}
		for _, s := range l.moves {
			done[s.Do]++
		}
	}
	for _, do := range slices.Concat(tortureFaults, tortureDeeds) {
		if done[do] == 0 && do != doKillApply && do != doFreezeApply {
			t.Errorf("in ten minutes nobody does: %s", do)
		}
	}
}

// tortureFaults and tortureDeeds are everything that a run counts, in the order of its report.
var (
	tortureFaults = []string{doKill, doFreeze, doCut, doLatency, doDeaf, doMute, doDead, doTerminate, doCrash, doDisk, doDiskWAL, doKillApply, doFreezeApply}
	tortureDeeds  = []string{doPublish, doDisable, doEnable, doDisableTask, doEnableTask, doPause, doResume, doCatchUp, doArchive, doUnarchive,
		doRetry, doRetryTwice, doStop, doStopTwice}
)

// uuid is one of the plan's own.
func (d *dice) uuid() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(d.Uint32())
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return uuid.UUID(b).String()
}
