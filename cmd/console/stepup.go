package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web"
)

// stepUpEntry is one issuer that a step-up may go to: what it must send, and the console's client there.
type stepUpEntry struct {
	oidc.Requirement `yaml:",inline"`
	ClientID         string `yaml:"client_id"`          // default: the sign-in's client, if the issuer is the sign-in's
	ClientSecretFile string `yaml:"client_secret_file"` // not needed for the sign-in's client or a public one
	AuthStyle        string `yaml:"auth_style"`
	JoinClaim        string `yaml:"join_claim"` // needed where the issuer is not the sign-in's

	secret secret
}

// readStepUp reads the file of the assurance tables, and refuses what it does not know.
func readStepUp(file string) ([]stepUpEntry, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CONSOLE_STEP_UP_FILE: %w", withoutOperation(err))
	}
	entries, err := parseStepUp(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range entries {
		if err := entries[i].readSecret(); err != nil {
			return nil, fmt.Errorf("%s: step-up at %s: %w", file, entries[i].Issuer, err)
		}
	}
	return entries, nil
}

func parseStepUp(text []byte) ([]stepUpEntry, error) {
	var content struct {
		StepUp []stepUpEntry `yaml:"step_up"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&content); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(oneLine(err))
	}
	if len(content.StepUp) == 0 {
		return nil, errors.New("step_up names no issuer")
	}
	return content.StepUp, nil
}

// oneLine is a YAML error as one sentence: line numbers and all, without the heading.
func oneLine(err error) string {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
	return strings.Join(strings.Fields(text), " ")
}

func (e *stepUpEntry) readSecret() (err error) {
	if e.ClientSecretFile != "" {
		e.secret, err = readSecretFile(e.ClientSecretFile)
	}
	return err
}

// provider is the configuration of the entry's client: its own, or that of the sign-in.
func (e stepUpEntry) provider(signIn *oidc.ProviderConfig, development bool) (oidc.ProviderConfig, error) {
	if e.ClientID == "" {
		if signIn == nil || signIn.Issuer != e.Issuer {
			return oidc.ProviderConfig{}, fmt.Errorf("step-up at %s: client_id is missing, and the issuer is not the sign-in's", e.Issuer)
		}
		return *signIn, nil
	}
	c := oidc.ProviderConfig{Issuer: e.Issuer, ClientID: e.ClientID, ClientSecret: e.secret.reveal(), AuthStyle: e.AuthStyle, JoinClaim: e.JoinClaim,
		Scopes: []string{"openid"}, AllowHTTP: development}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("step-up at %s: %w", e.Issuer, err)
	}
	return c, nil
}

// readStepUps checks the whole table before any connection is opened.
func (i *identity) readStepUps() error {
	entries, err := readStepUp(i.flags.StepUpFile)
	if err != nil {
		return err
	}
	i.stepUps = append(i.stepUps, entries...)
	var errs []error
	for _, e := range i.stepUps {
		_, err := e.provider(i.provider, i.development)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err = oidc.NewStepUp(oidc.StepUpConfig{Issuers: i.requirements()})
	return err
}

func (i *identity) requirements() []oidc.StepUpIssuer {
	var list []oidc.StepUpIssuer
	for _, e := range i.stepUps {
		list = append(list, oidc.StepUpIssuer{Requirement: e.Requirement})
	}
	return list
}

// openManagement opens what retrying and stopping need: the run manager's pool and the step-up. Without a connection of
// ql3_run_manager, or without an assurance table, the replica is read-only and says so.
func (s *server) openManagement(ctx context.Context, i *identity, c *web.Config) error {
	if _, ok := s.urls[migrations.RoleRunManager]; !ok || len(i.stepUps) == 0 {
		s.log.Warn("this replica is read-only: retrying and stopping need CONSOLE_RUN_MANAGER_DATABASE_URL and CONSOLE_STEP_UP_FILE")
		return nil
	}
	pool, err := s.openPool(ctx, migrations.RoleRunManager)
	if err != nil {
		return err
	}
	c.Runs = runmgmt.New(runmgmt.Config{Pool: pool, Metrics: s.mutations, Log: s.log, Hints: s.hints})
	issuers := i.requirements()
	for k, e := range i.stepUps {
		config, err := e.provider(i.provider, i.development)
		if err != nil {
			return err
		}
		p := oidc.NewProvider(config, s.log)
		s.always = append(s.always, p.Run)
		issuers[k].Provider = p
	}
	c.StepUp, err = oidc.NewStepUp(oidc.StepUpConfig{Issuers: issuers, Authn: s.pools[migrations.RoleAuthn], Cookies: i.cookies,
		RedirectURL: i.public.JoinPath(web.StepUpPath).String(), Log: s.log})
	return err
}
