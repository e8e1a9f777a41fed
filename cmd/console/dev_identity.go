package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/dev/idp"
	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web"
)

// The console has two clients at the provider, so that a sign-in's token has the wrong audience to be a proof.
const (
	devClient       = "console"
	devStepUpClient = "console-step-up"
)

// signIn starts the development identity provider and makes the console's pages sign in there, by serve's own code. It
// completes file.
func (c devCmd) signIn(ctx context.Context, s *server, file *devFile, dir string, last devFile) ([]idp.Account, error) {
	l, err := listenAgain("--idp-listen", c.IDPListen, last.Issuer)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // an address the listener gave
	file.Issuer = "http://localhost:" + port
	password, stepUpPassword := rand.Text(), rand.Text()
	provider, err := idp.New(idp.Config{Issuer: file.Issuer, Dir: filepath.Join(dir, "idp"), Log: s.log, Clients: []idp.Client{
		{ID: devClient, Secret: password, RedirectURIs: []string{file.URL + web.CallbackPath}, PostLogoutURIs: []string{file.URL + web.SignedOutPath},
			BackChannelURI: file.URL + web.BackChannelPath},
		{ID: devStepUpClient, Secret: stepUpPassword, RedirectURIs: []string{file.URL + web.StepUpPath}},
	}})
	if err != nil {
		l.Close()
		return nil, err
	}
	file.Accounts = provider.Accounts()
	s.always = append(s.always, func(ctx context.Context) { serveUntil(ctx, l, provider.Handler()) })
	flags := identityFlags{PublicURL: file.URL, OIDCIssuer: file.Issuer, OIDCClientID: devClient, OIDCScopes: []string{"openid", "profile", "email"},
		ProxyIdentity: "none", SessionIdle: 12 * time.Hour, SessionLifetime: 24 * time.Hour}
	who, err := flags.check(func(name string) string {
		if name == oidcSecret.name {
			return password
		}
		return ""
	}, true)
	if err != nil {
		return nil, err
	}
	who.stepUps = []stepUpEntry{{Requirement: devRequirement(file.Issuer), ClientID: devStepUpClient, secret: secret(stepUpPassword)}}
	return provider.Accounts(), s.servePages(ctx, who, development{hosts: []string{"localhost"}, banner: devBanner, styleguide: true})
}

// serveUntil serves h on l until ctx ends.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: 60 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	server.Serve(l) // ends with ctx
}

// grantAccounts gives every account of the provider its role in the sample project, once.
func grantAccounts(ctx context.Context, s *server, urls databases, issuer string, accounts []idp.Account) error {
	admin, err := urls.open(ctx, migrations.RoleAdmin, nil)
	if err != nil {
		return err
	}
	defer admin.Close()
	var errs []error
	for _, a := range accounts {
		if a.Role == "" {
			continue
		}
		user, err := oidc.Register(ctx, s.pools[migrations.RoleAuthn], oidc.Identity{Origin: oidc.OriginOIDC, Issuer: issuer, Subject: a.Subject, Name: a.Name, Email: a.Email, EmailVerified: true})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		_, err = policy.Grant(ctx, admin, policy.GrantRequest{Project: sampleProject, User: user, Role: policy.Role(a.Role),
			MutationID: uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s %s %s", issuer, a.Subject, a.Role)),
			Actor:      policy.Actor{Type: policy.ByCommand, Name: "console dev"}, Reason: "the development account " + a.Username})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// announce says where the instance is, who may sign in, and what a retry takes.
func announce(w io.Writer, f devFile, dir string) {
	fmt.Fprintf(w, "\n  QingLong Console (development instance)\n\n  open      %s\n  details   %s\n  stop      Ctrl-C\n\n", f.URL, devFilePath(dir))
	fmt.Fprintf(w, "  %-10s %-18s %s\n", "sign in as", "password", "role in the project "+sampleProject)
	for _, a := range f.Accounts {
		fmt.Fprintf(w, "  %-10s %-18s %s\n", a.Username, a.Password, cmp.Or(a.Role, "none: sees what it is to have no role"))
	}
	fmt.Fprintf(w, "\n  Retrying and stopping a Run take a one-time code too. Its secret is the account's totpSecret in\n  dev.json, and a QR code at %s.\n\n", f.Issuer)
}

// devRequirement asks for the strongest there is and takes a second factor of either kind.
func devRequirement(issuer string) oidc.Requirement {
	return oidc.Requirement{Issuer: issuer, SecondFactor: "always", Request: oidc.Request{ACRValues: []string{idp.ACRHardware, idp.ACRMultiFactor}},
		Assurance: []oidc.Rule{{Claim: "acr", Equals: idp.ACRHardware, Level: "hardware"}, {Claim: "acr", Equals: idp.ACRMultiFactor, Level: "multi_factor"}}}
}
