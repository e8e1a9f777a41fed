package main

import (
	"context"
	"net/http"
	"time"

	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web"
	"github.com/qinglong/console/web/live"
)

// devBanner stands on every page of a development instance.
var devBanner = text.Of("Development instance. Its accounts are in dev.json, for anyone who may read it.")

// A development is what a development instance alone has. No flag, variable or file of `console serve` leads to one.
type development struct {
	hosts      []string // the only names it answers to
	banner     text.Text
	styleguide bool
}

// servePages makes the public listener serve the console for whoever i lets in.
func (s *server) servePages(ctx context.Context, i *identity, d development) error {
	w, err := s.openIdentity(ctx, i)
	if err != nil {
		return err
	}
	c := web.Config{DB: s.pools[migrations.RoleConsole], Log: s.log, PublicURL: i.public, Ready: s.isReady, Version: version,
		AllowedHosts: d.hosts, Banner: d.banner, Styleguide: d.styleguide, Identity: w, Live: live.New(), SharedFor: sharedFor, FrameAncestors: i.flags.FrameAncestors, FormAction: i.flags.FormAction}
	if err := s.openManagement(ctx, i, &c); err != nil {
		return err
	}
	s.always = append(s.always, func(ctx context.Context) { c.Live.Run(ctx, s.nextChange) })
	s.beside = append(s.beside, s.listenForChanges)
	s.handler = s.probesFirst(web.New(c))
	return nil
}

// probesFirst answers /livez and /readyz at the root, where an orchestrator asks for them whatever the public path is,
// and leaves the rest to h.
func (s *server) probesFirst(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/livez":
		case "/readyz":
			if !s.isReady() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// machinesOnly answers the probes and nothing else: what a replica serves that has no sign-in to put before its pages.
func (s *server) machinesOnly() http.Handler {
	return s.probesFirst(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This replica has no pages: CONSOLE_PUBLIC_URL is not set.", http.StatusNotFound)
	}))
}

// How often open pages look for what has changed: when told that something has, but not much more than once a second,
// and now and then without being told.
const (
	changeGap   = time.Second
	changeEvery = 10 * time.Second
)

// sharedFor is for how long a count stands for those who see the same, unless pages are told before that something has changed.
const sharedFor = time.Second

// nextChange returns when it is time to look again.
func (s *server) nextChange(ctx context.Context) error {
	wait(ctx, changeGap)
	timer := time.NewTimer(changeEvery)
	defer timer.Stop()
	select {
	case <-s.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
