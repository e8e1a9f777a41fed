package oidc

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/qinglong/console/internal/pg"
)

// FromProxy admits a request whose user a proxy names, and returns a context whose [Current] session is that user's. ctx
// must come from [Sessions.Load].
//
// A session of another user ends, and with it the request, for a form that one user filled in is not sent by another: the
// error is an [*Ended] with "user_switched". Without a session one begins if mayBegin says so, which is for a page that
// somebody opens and not for a form or a stream; else the error is the [*Ended] that says why there is none. A disabled
// user is a [*Refusal].
func (s *Sessions) FromProxy(ctx context.Context, w http.ResponseWriter, i Identity, c Client, mayBegin bool, log *slog.Logger) (_ context.Context, err error) {
	defer pg.Wrap(&err, "Sessions.FromProxy()")
	session, err := Current(ctx)
	if err == nil && session.Issuer == i.Issuer && session.Subject == i.Subject {
		return ctx, nil
	}
	if err == nil {
		return nil, s.switched(ctx, w, session, c)
	}
	if !mayBegin {
		return nil, err
	}
	n := newcomer{Identity: i, client: c}
	session, err = s.begin(ctx, w, n)
	if err != nil {
		return nil, denied(ctx, s.config.Authn, log, actionSignIn, n.actor(), err)
	}
	return context.WithValue(ctx, contextKey{}, loaded{session: session}), nil
}

func (s *Sessions) switched(ctx context.Context, w http.ResponseWriter, session Session, c Client) error {
	if err := s.endAudited(ctx, "session.user_switch", "user_switched", session.Actor(c), "id = $2", session.ID); err != nil {
		return err
	}
	if err := s.dropCookie(ctx, w); err != nil {
		return err
	}
	return &Ended{Reason: "user_switched"}
}
