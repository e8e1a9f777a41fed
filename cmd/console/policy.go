package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
)

// userFlags name a User in one of three ways.
type userFlags struct {
	User    string      `help:"A user, by id." placeholder:"ID" xor:"user" env:"-"`
	Subject subjectFlag `help:"A user, by issuer and subject, both exact: two words." placeholder:"ISSUER SUBJECT" xor:"user" env:"-"`
	Email   string      `help:"A user, by an address that exactly one has verified." placeholder:"ADDRESS" xor:"user" env:"-"`
}

// A subjectFlag takes two words.
type subjectFlag struct{ issuer, subject string }

// Decode reads both words. The subject is whatever stands there: a provider's opaque one may begin with a dash.
func (s *subjectFlag) Decode(ctx *kong.DecodeContext) error {
	if err := ctx.Scan.PopValueInto("issuer", &s.issuer); err != nil {
		return err
	}
	s.subject = ctx.Scan.Peek().String()
	if strings.HasPrefix(s.subject, "-") {
		ctx.Scan.Pop()
		return nil
	}
	return ctx.Scan.PopValueInto("subject after the issuer", &s.subject)
}

// find returns the User that the flags name, or the zero User if they name none.
func (f userFlags) find(ctx context.Context, pool *pgxpool.Pool) (policy.User, error) {
	ref := cmp.Or(f.User, f.Email)
	if f.Subject != (subjectFlag{}) {
		ref = f.Subject.issuer + " " + f.Subject.subject
	}
	if ref == "" {
		return policy.User{}, nil
	}
	u, err := policy.FindUser(ctx, pool, ref)
	return u, asUsage(err)
}

// one is find, for a command that needs a User.
func (f userFlags) one(ctx context.Context, pool *pgxpool.Pool) (policy.User, error) {
	u, err := f.find(ctx, pool)
	if err == nil && u.ID == uuid.Nil {
		err = usage("whom? Write --user ID, --subject ISSUER SUBJECT or --email ADDRESS")
	}
	return u, err
}

// changeFlags are those of every command that changes what a User may do.
type changeFlags struct {
	userFlags
	Reason string `help:"Why, for the audit; at most 500 characters." env:"-"`
	yesFlag
}

// yesFlag is that of every command that asks first.
type yesFlag struct {
	Yes bool `short:"y" help:"Do it without asking. Needed where there is no terminal to ask on." env:"-"`
}

type grantCmd struct {
	Project string `required:"" help:"The project." env:"-"`
	Role    string `required:"" enum:"owner,admin,operator,viewer" help:"owner, admin, operator or viewer." env:"-"`
	changeFlags
}

// Run gives the User the role, in place of the one it has, and says whom it was given to.
func (c grantCmd) Run(ctx context.Context, e env) error {
	return c.change(ctx, e, c.Project, func(pool *pgxpool.Pool, u policy.User, held policy.Role) (planned, error) {
		role := policy.Role(c.Role)
		if held == role {
			return planned{}, sayUnchanged(e, "%s is %s in %s already", describeUser(u), role, visible(c.Project))
		}
		instead := ""
		if held != "" {
			instead = fmt.Sprintf(" in place of %s", held)
		}
		return planned{
			words: fmt.Sprintf("%s in %s%s to %s", role, visible(c.Project), instead, describeUser(u)), verb: "grant", done: "granted",
			do: func() error {
				_, err := policy.Grant(ctx, pool, policy.GrantRequest{Project: c.Project, User: u.ID, Role: role,
					MutationID: uuid.New(), Actor: commandActor(e), Reason: c.Reason})
				return err
			}}, nil
	})
}

type revokeCmd struct {
	Project string `required:"" help:"The project." env:"-"`
	changeFlags
}

// Run takes the User's role in the Project away.
func (c revokeCmd) Run(ctx context.Context, e env) error {
	return c.change(ctx, e, c.Project, func(pool *pgxpool.Pool, u policy.User, held policy.Role) (planned, error) {
		if held == "" {
			return planned{}, sayUnchanged(e, "%s has no role in %s", describeUser(u), visible(c.Project))
		}
		return planned{
			words: fmt.Sprintf("%s in %s from %s", held, visible(c.Project), describeUser(u)), verb: "revoke", done: "revoked",
			do: func() error {
				_, err := policy.Revoke(ctx, pool, policy.RevokeRequest{Project: c.Project, User: u.ID,
					MutationID: uuid.New(), Actor: commandActor(e), Reason: c.Reason})
				return err
			}}, nil
	})
}

// planned is a change that is to be confirmed first: "verb words", and afterwards "done words". No do is nothing to do.
type planned struct {
	verb, done, words string
	do                func() error
}

// change finds the User and its role in project, if it is about one, lets plan decide what to do, asks, and does it. What is
// known to be wrong is refused before anybody is asked.
func (f changeFlags) change(ctx context.Context, e env, project string,
	plan func(*pgxpool.Pool, policy.User, policy.Role) (planned, error)) error {
	pool, err := openAs(ctx, e, migrations.RoleAdmin)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := f.check(ctx, pool, project); err != nil {
		return asUsage(err)
	}
	u, err := f.one(ctx, pool)
	if err != nil {
		return err
	}
	held, err := policy.ListBindings(ctx, pool, policy.BindingFilter{Scope: policy.Scope{Projects: []string{project}}, User: u.ID})
	if err != nil {
		return err
	}
	var role policy.Role
	for _, b := range held {
		role = b.Role
	}
	p, err := plan(pool, u, role)
	if err != nil || p.do == nil {
		return err
	}
	if err := f.confirm(ctx, e, p); err != nil {
		return err
	}
	if err := p.do(); err != nil {
		return asUsage(err)
	}
	_, err = fmt.Fprintf(e.stdout, "%s %s\n", p.done, p.words)
	return err
}

func (f changeFlags) check(ctx context.Context, pool *pgxpool.Pool, project string) error {
	if err := policy.CheckReason(f.Reason); err != nil {
		return err
	}
	return checkProject(ctx, pool, project)
}

func sayUnchanged(e env, format string, args ...any) error {
	_, err := fmt.Fprintf(e.stdout, "unchanged: "+format+"\n", args...)
	return err
}

// confirm asks on the terminal, if --yes has not answered. Being interrupted is an answer too.
func (f yesFlag) confirm(ctx context.Context, e env, p planned) error {
	if f.Yes {
		return nil
	}
	if !isTerminal(e.stdin) {
		return usage("nothing was changed. To %s %s, add --yes: there is no terminal to ask on", p.verb, p.words)
	}
	fmt.Fprintf(e.stderr, "%s %s? [y/N] ", p.verb, p.words)
	answer := make(chan string, 1)
	go func() { // nothing interrupts reading a terminal; the process ends soon
		line, _ := bufio.NewReader(e.stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		if a == "y" || a == "yes" {
			return nil
		}
	case <-ctx.Done():
	}
	return usage("not confirmed; nothing was changed")
}

func isTerminal(stdin any) bool {
	f, ok := stdin.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

// describeUser names a User by what can be checked, first by what people know.
func describeUser(u policy.User) string {
	return fmt.Sprintf("%s (issuer %s, subject %s)", visible(cmp.Or(u.Name, u.Email, u.ID.String())), visible(u.Issuer), visible(u.Subject))
}

// commandActor is who runs this command, as far as the machine says.
func commandActor(e env) policy.Actor {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if who := e.getenv("SUDO_USER"); who != "" {
		name += " for " + who
	}
	if host, err := os.Hostname(); err == nil {
		name += " at " + host
	}
	return policy.Actor{Type: policy.ByCommand, Name: name}
}

// openAs opens the pool of role from the environment.
func openAs(ctx context.Context, e env, role string) (*pgxpool.Pool, error) {
	urls, err := readDatabases(e.getenv)
	if err != nil {
		return nil, err
	}
	return urls.open(ctx, role, nil)
}

// asUsage makes a Mistake exit 2 with its sentence and nothing around it.
func asUsage(err error) error {
	if m, ok := errors.AsType[policy.Mistake](err); ok {
		return usageError{m}
	}
	return err
}
