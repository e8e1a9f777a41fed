package catalog

import (
	"time"

	"github.com/qinglong/console/internal/cron"
)

// maxCounted bounds the counting of instants; above it they are "at least" so many.
const maxCounted = 1000

// passedOver is what a Schedule expected up to a time and what it expects next.
// Publishing over it records these instants, as superseded or paused. It is
// computed before the locks are taken, so until tells what the wait added.
type passedOver struct {
	revision int64
	firstMS  int64
	lastMS   int64
	count    int
	atLeast  bool
	nextMS   int64 // 0: none
}

// passOver returns what head's Schedule expected up to seenMS.
func passOver(head triggerHead, seenMS int64) *passedOver {
	p := &passedOver{revision: head.revision}
	_, schedule, err := ParseSchedule(head.content)
	if err != nil { // a Schedule that is blocked can still be published over
		return p.cursorOnly(head.schedule.cursorMS)
	}
	p.firstMS = next(schedule, head.schedule.baseAtMS)
	if head.schedule.cursorMS != nil {
		p.firstMS = *head.schedule.cursorMS
	}
	if p.firstMS == 0 || p.firstMS > seenMS {
		p.nextMS = p.firstMS
		return p
	}
	first, seen := time.UnixMilli(p.firstMS), time.UnixMilli(seenMS)
	p.count, p.atLeast = schedule.Count(first, seen.Add(time.Millisecond), maxCounted)
	p.count++ // the first
	p.lastMS = p.firstMS
	if last, ok := schedule.Last(first, seen); ok {
		p.lastMS = last.UnixMilli()
	}
	p.nextMS = next(schedule, seenMS)
	return p
}

func (p *passedOver) cursorOnly(cursorMS *int64) *passedOver {
	if cursorMS != nil {
		p.nextMS = *cursorMS
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

// until adds what fell due after the snapshot, up to nowMS.
func (p passedOver) until(nowMS int64) passedOver {
	if p.nextMS == 0 || p.nextMS > nowMS {
		return p
	}
	if p.count == 0 {
		p.firstMS = p.nextMS
	}
	p.lastMS = p.nextMS
	p.count++
	p.atLeast = true // more may have: they are not worth cron under a lock
	return p
}
