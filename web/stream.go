package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/live"
	"github.com/qinglong/console/web/templates"
)

const (
	beatEvery = 10 * time.Second // below what proxies wait for, and how soon the end of a session ends its streams
	leastGap  = time.Second      // between two readings of one stream
	restFor   = 20               // times as long as the last reading took: a page that costs much is read less often
)

// A fragment is a live part of a page as a stream sends it.
type fragment struct {
	Name string `json:"name"`
	HTML string `json:"html"`
}

// stream keeps the page that read makes current in the browser that shows it. Every reading is the page's own, with what
// the session's user may see by then, so a stream shows nobody what their page would not; and a hint says nothing but that
// it is worth reading again. It goes on from the state that Last-Event-ID names.
func (s *server) stream(c echo.Context, read readingFunc) error {
	session, err := oidc.Current(c.Request().Context())
	if err != nil {
		return err
	}
	sub, err := s.Live.Subscribe(session.UserID)
	if err != nil {
		return tooManyStreams(err)
	}
	defer sub.Close()
	ctx, stop := whileOpen(c.Request().Context(), sub)
	defer stop()
	c.SetRequest(c.Request().WithContext(ctx))
	began := time.Now()
	now, err := s.liveParts(c, read)
	if err != nil {
		return err
	}
	goesOn(c)
	out, err := live.Open(c.Response())
	for seen := c.Request().Header.Get("Last-Event-ID"); err == nil; {
		if seen, err = sendParts(out, now, seen); err != nil {
			break
		}
		if err = s.waitForChange(ctx, sub, out, session, max(leastGap, restFor*time.Since(began))); err == nil {
			began = time.Now()
			now, err = s.liveParts(c, read)
		}
	}
	return nil // the reader comes again, and is told then what there is to tell
}

func tooManyStreams(cause error) problem {
	p := newProblem(http.StatusTooManyRequests, text.Of("Too many live pages"), text.Of("You have as many live pages open as one may have."), nothing,
		text.Of("Close some, or reload this page to see it as it is now."), cause)
	p.retryAfter = 30 * time.Second
	if errors.Is(cause, live.ErrClosed) {
		p.status, p.what, p.retryAfter = http.StatusServiceUnavailable, text.Of("This replica is stopping."), unavailableFor
	}
	return p
}

// liveParts reads the page once more and returns its live parts.
func (s *server) liveParts(c echo.Context, read readingFunc) (templates.Fragments, error) {
	r := c.Request()
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	c.SetRequest(r.WithContext(ctx))
	defer c.SetRequest(r)
	found, err := read(c)
	if err != nil {
		return nil, err
	}
	return render(c, found.page(), io.Discard, true)
}

// sendParts sends what now has that seen has not, and returns the state that the reader has then seen. The id comes with
// the last, so that who missed one is sent all of them.
func sendParts(out *live.Stream, now templates.Fragments, seen string) (string, error) {
	names, state := now.Since(seen)
	events := make([]live.Event, len(names))
	for i, name := range names {
		events[i] = live.Event{ID: seen, Name: "fragment", Data: fragment{name, now[name].HTML}}
		if i == len(names)-1 {
			events[i].ID = state
		}
	}
	if err := out.Send(events...); err != nil {
		return seen, err
	}
	return state, nil
}

// whileOpen ends ctx with the subscription, so that a replica that stops waits for no reading.
func whileOpen(ctx context.Context, sub *live.Subscription) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-sub.Done:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// waitForChange returns when the page is worth reading again, after rest at the soonest, and an error when its stream is
// over. A database that does not answer ends it too.
func (s *server) waitForChange(ctx context.Context, sub *live.Subscription, out *live.Stream, session oidc.Session, rest time.Duration) error {
	if err := awaitChange(ctx, sub, rest); err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := s.Identity.Sessions.Recheck(asking, session); err != nil {
		return err
	}
	return out.Beat()
}

// awaitChange waits for a change, after rest at the soonest, and for no longer than a beat.
func awaitChange(ctx context.Context, sub *live.Subscription, rest time.Duration) error {
	beat, rested := time.NewTimer(beatEvery), time.NewTimer(rest)
	defer beat.Stop()
	defer rested.Stop()
	var changed <-chan struct{} // nobody listens while it rests
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rested.C:
			changed = sub.Changed
		case <-changed:
			return nil
		case <-beat.C:
			return nil
		}
	}
}
