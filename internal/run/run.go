// Package run owns the Run, its Attempts and its Events: the states and the moves between them, the one insertion of
// a Run, and the family of retries.
//
// A Run is the aggregate root. Every write changes the Run's version, numbers one Event after the last, and happens in
// one transaction; a terminal Run is never written again, which the database itself refuses. A writer that does not
// hold what it thinks it holds (a lease, a state) changes nothing and gets [ErrLost].
package run

import (
	"encoding/binary"
	"errors"

	"github.com/google/uuid"
)

// ErrLost reports that the Run or Attempt is no longer in the state, or under the lease, that the writer assumes.
var ErrLost = errors.New("the run is no longer in the expected state or under this lease")

// ErrNotFound reports that there is no such Run, or none the reader may see.
var ErrNotFound = errors.New("no such run")

// Status is the state of a Run or of an Attempt.
type Status string

// The states of a Run. Lost is not terminal: whether the command still runs is not known.
const (
	Created         Status = "created"
	WaitingApproval Status = "waiting_approval"
	Queued          Status = "queued"
	Dispatching     Status = "dispatching"
	Running         Status = "running"
	RetryWait       Status = "retry_wait"
	Lost            Status = "lost"
	Succeeded       Status = "succeeded"
	Failed          Status = "failed"
	Cancelled       Status = "cancelled"
	TimedOut        Status = "timed_out"
)

// The states that only an Attempt has. Its Lost is terminal: another Attempt may follow, this one is over.
const (
	Claimed  Status = "claimed"
	Starting Status = "starting"
)

// RunMoves are the allowed transitions of a Run: the one table behind the code and the diagram in the documentation.
var RunMoves = map[Status][]Status{
	Created:         {Queued, WaitingApproval, Cancelled},
	WaitingApproval: {Queued, Cancelled},
	Queued:          {Dispatching, Cancelled},
	Dispatching:     {Running, Failed, Cancelled, TimedOut, Lost},
	Running:         {Succeeded, Failed, Cancelled, TimedOut, Lost, RetryWait},
	RetryWait:       {Queued, Failed, Cancelled},
	Lost:            {Succeeded, Failed, Cancelled, TimedOut},
}

// AttemptMoves are the allowed transitions of an Attempt.
var AttemptMoves = map[Status][]Status{
	Claimed:  {Starting, Cancelled, Lost},
	Starting: {Running, Failed, Cancelled, TimedOut, Lost},
	Running:  {Succeeded, Failed, Cancelled, TimedOut, Lost},
}

// RunStatuses lists every state of a Run in the order of its life.
func RunStatuses() []Status {
	return []Status{Created, WaitingApproval, Queued, Dispatching, Running, RetryWait, Lost, Succeeded, Failed, Cancelled, TimedOut}
}

// Terminal reports whether a Run in s is over for ever.
func (s Status) Terminal() bool {
	return s == Succeeded || s == Failed || s == Cancelled || s == TimedOut
}

// sources lists the states from which moves lead to a state, as text for SQL.
func sources(moves map[Status][]Status, to Status) []string {
	var from []string
	for s, targets := range moves {
		for _, t := range targets {
			if t == to {
				from = append(from, string(s))
			}
		}
	}
	return from
}

// NewID makes a UUID version 7 (RFC 9562, section 5.7) whose time is ms, a reading of the database clock: ids sort by
// the clock that has authority, whatever this replica's own clock says.
func NewID(ms int64) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], uint64(ms)<<16)
	copy(id[:6], head[:6])
	return id
}
