package catalog

import (
	"time"

	"github.com/qinglong/console/internal/cron"
)

// maxCounted bounds the counting of instants; above it they are "at least" so many.
const maxCounted = 1000

// passedOver is what a Schedule expected up to a time and what it expects in
// the time that publishing may take from there. Publishing over it records
// these instants, as superseded or paused. It is computed before the locks are
// taken, so until tells what the wait added.
type passedOver struct {
	revision int64
	firstMS  int64
	lastMS   int64
	count    int
	atLeast  bool
	seenMS   int64
	ahead    []int64 // what it expects after seenMS: the next instant, and the others up to horizonMS
}

// passOver returns what head's Schedule expected up to seenMS.
func passOver(head triggerHead, seenMS int64) *passedOver {
	p := &passedOver{revision: head.revision, seenMS: seenMS}
	_, schedule, err := ParseSchedule(head.content)
	if err != nil { // a Schedule that is blocked can still be published over
		return p.cursorOnly(head.schedule.cursorMS)
	}
	p.firstMS = next(schedule, head.schedule.baseAtMS)
	if head.schedule.cursorMS != nil {
		p.firstMS = *head.schedule.cursorMS
	}
	if p.firstMS == 0 || p.firstMS > seenMS {
		p.look(schedule, p.firstMS)
		return p
	}
	first, seen := time.UnixMilli(p.firstMS), time.UnixMilli(seenMS)
	p.count, p.atLeast = schedule.Count(first, seen.Add(time.Millisecond), maxCounted)
	p.count++ // the first
	p.lastMS = p.firstMS
	if last, ok := schedule.Last(first, seen); ok {
		p.lastMS = last.UnixMilli()
	}
	p.look(schedule, next(schedule, seenMS))
	return p
}

// horizonMS is how far it looks ahead.
func (p passedOver) horizonMS() int64 { return p.seenMS + publishTimeout.Milliseconds() }

// look looks ahead from the next instant, as far as publishing may take.
func (p *passedOver) look(s cron.Schedule, nextMS int64) {
	for at := nextMS; at != 0; at = next(s, at) {
		p.ahead = append(p.ahead, at)
		if at > p.horizonMS() {
			return
		}
	}
}

func (p *passedOver) cursorOnly(cursorMS *int64) *passedOver {
	if cursorMS != nil {
		p.ahead, p.atLeast = []int64{*cursorMS}, true
	}
	return p
}

func next(s cron.Schedule, afterMS int64) int64 {
	at, ok := s.Next(time.UnixMilli(afterMS))
	if !ok {
		return 0
	}
	return at.UnixMilli()
}

// until adds what fell due after the snapshot, up to nowMS. Cron is not worth
// computing under a lock: should the wait have been longer than publishing may
// take, all the time up to nowMS counts as passed over, so that nothing is lost.
func (p passedOver) until(nowMS int64) passedOver {
	for _, at := range p.ahead {
		if at > nowMS {
			return p
		}
		if p.count == 0 {
			p.firstMS = at
		}
		p.lastMS = at
		p.count++
	}
	if p.count > 0 && nowMS > p.horizonMS() {
		p.lastMS, p.atLeast = nowMS, true
	}
	return p
}
