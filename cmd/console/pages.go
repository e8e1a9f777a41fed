package main

import (
	"context"
	"net/http"

	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web"
)

// devBanner stands on every page of a development instance.
const devBanner = "Development instance. Its accounts are in dev.json, for anyone who may read it."

// servePages makes the public listener serve the console for whoever i lets in. hosts, if any, are the only names it
// answers to; banner is said on every page.
func (s *server) servePages(ctx context.Context, i *identity, hosts []string, banner string) error {
	w, err := s.openIdentity(ctx, i)
	if err != nil {
		return err
	}
	c := web.Config{DB: s.pools[migrations.RoleConsole], Log: s.log, PublicURL: i.public, Ready: s.isReady, Version: version,
		AllowedHosts: hosts, Banner: banner, Identity: w, FrameAncestors: i.flags.FrameAncestors, FormAction: i.flags.FormAction}
	if err := s.openManagement(ctx, i, &c); err != nil {
		return err
	}
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
