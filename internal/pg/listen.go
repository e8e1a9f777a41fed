package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const listenRetry = time.Second

// Listen calls wake for every notification on channel, and once whenever listening has begun, since something may have
// been missed before. It reconnects for ever, on a connection of its own, and returns when ctx ends. A notification is
// only a hint: whoever uses it must be correct without.
func Listen(ctx context.Context, url, channel string, wake func(), report func(error)) {
	for ctx.Err() == nil {
		err := listenOnce(ctx, url, channel, wake)
		if ctx.Err() != nil {
			return
		}
		report(err)
		select {
		case <-ctx.Done():
		case <-time.After(listenRetry):
		}
	}
}

func listenOnce(ctx context.Context, url, channel string, wake func()) error {
	connectCtx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return redactedURLError(err)
	}
	writableOnly(&cfg.Config) // a standby refuses LISTEN
	conn, err := pgx.ConnectConfig(connectCtx, cfg)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	if _, err := conn.Exec(connectCtx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	for wake(); ; wake() {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	conn.Close(ctx)
}
