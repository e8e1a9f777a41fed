package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/qinglong/console/migrations"
)

// explained is a failure to connect in one line, with what to do about it. What it wraps is as it was.
type explained struct {
	text string
	err  error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.err }

// explainConnect makes err, if it is of a connection that could not be made, say each reason once and, if the server let one
// of the console's roles not in, what to do. Any other error it returns as it is.
func explainConnect(err error) error {
	failed, ok := errors.AsType[*pgconn.ConnectError](err)
	if _, done := errors.AsType[explained](err); !ok || done {
		return err
	}
	whole := failed.Error()
	head, _, _ := strings.Cut(whole, "`:")
	text := head + "`: " + strings.Join(reasonsOf(failed.Unwrap().Error()), "; ")
	return explained{strings.Replace(err.Error(), whole, text, 1) + remedy(failed), err}
}

const tlsRefused = "tls error: server refused TLS connection"

// reasonsOf are the lines of text without repetitions: pgx has one for each attempt. That the server has no TLS is no reason
// where the same address was tried without it as well.
func reasonsOf(text string) []string {
	var list []string
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		address, refused := strings.CutSuffix(line, tlsRefused)
		again := refused && slices.ContainsFunc(lines, func(l string) bool { return l != line && strings.HasPrefix(l, address) })
		if !again && !slices.Contains(lines[:i], line) {
			list = append(list, line)
		}
	}
	return list
}

// remedy says what to do when the server did not let a role of the console in. With password authentication it says the same
// of a role that is not there as of a wrong password.
func remedy(failed *pgconn.ConnectError) string {
	answer, ok := errors.AsType[*pgconn.PgError](failed)
	switch {
	case !ok || !slices.Contains(migrations.Roles(), failed.Config.User):
		return ""
	case answer.Code == pgerrcode.InvalidPassword:
		return "; if the database is new, run: console migrate bootstrap, which makes the roles; otherwise the password in the URL is not the role's"
	case answer.Code == pgerrcode.InvalidAuthorizationSpecification && answer.Routine == "InitializeSessionUserId": // not there, or NOLOGIN
		return "; run: console migrate bootstrap, which makes the roles and lets those log in whose URL is set"
	}
	return ""
}
