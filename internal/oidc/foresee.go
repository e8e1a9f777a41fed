package oidc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/policy"
)

// What a request has read of its session takes three readings, each of which needs what the one before said: the cookie
// store's row, the session's, and what its user may do. A token names the same session as long as it lives, so a replica
// that has seen it before sends all three at once. Nothing that was remembered decides anything: what the store says now is
// compared with what it said then, and where that differs the others are read again, one after the other.

// A foresight is what a token named when a request last came with it.
type foresight struct {
	key        string // of the cookie store's row
	data       []byte // of that row
	id, user   uuid.UUID
	generation int64
}

// mostForeseen bounds how many tokens are remembered; beyond, remembering begins anew.
const mostForeseen = 10_000

// foresights are by the hash of a token, so that no memory holds what a browser could sign in with.
type foresights struct {
	mu   sync.Mutex
	list map[[sha256.Size]byte]foresight
}

func (f *foresights) of(token string) (foresight, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, ok := f.list[sha256.Sum256([]byte(token))]
	return x, ok
}

func (f *foresights) remember(token string, x foresight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.list == nil || len(f.list) >= mostForeseen {
		f.list = map[[sha256.Size]byte]foresight{}
	}
	f.list[sha256.Sum256([]byte(token))] = x
}

func (f *foresights) forget(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.list, sha256.Sum256([]byte(token)))
}

// looked is the one look of a request into the cookie store: read ahead if the request's token was foreseen, and otherwise
// noted for the next one.
type looked struct {
	ahead bool
	key   string
	data  []byte
	found bool
}

type lookedKey struct{}

// take returns what was read ahead of the row of key, once.
func (l *looked) take(key string) (data []byte, found, ok bool) {
	if l == nil || !l.ahead || l.key != key {
		return nil, false, false
	}
	l.ahead = false
	return l.data, l.found, true
}

// foresee reads all of what token is expected to name in one breath, if anything is. The session is good only if the look
// says what was expected.
func (s *Sessions) foresee(ctx context.Context, token string, access *policy.Access) (*looked, foresight, loaded, error) {
	expected, ok := s.foresights.of(token)
	if !ok {
		return &looked{}, foresight{}, loaded{}, nil
	}
	look := &looked{ahead: true, key: expected.key}
	var l loaded
	var b pgx.Batch
	b.Queue(findSQL, expected.key).QueryRow(func(row pgx.Row) (err error) {
		look.data, look.found, err = scanFound(row)
		return err
	})
	b.Queue(readSQL, expected.id, expected.generation).QueryRow(func(row pgx.Row) error {
		if l.session, l.err = scanSession(row); errors.Is(l.err, ErrSignedOut) {
			return nil
		}
		return l.err
	})
	if access != nil {
		policy.QueueAccess(&b, expected.user, access)
	}
	err := s.config.Console.SendBatch(ctx, &b).Close()
	return look, expected, l, err
}

// says reports whether the store still says what was expected of it. Of nothing, nothing is expected.
func (l *looked) says(expected foresight) bool {
	return l.found && bytes.Equal(l.data, expected.data) && expected.id != uuid.Nil
}
