package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/qinglong/console/migrations"
	"github.com/qinglong/console/web"
)

// devBanner stands on every page of a development instance.
const devBanner = "Development instance. Anyone on this machine can use it."

// servePages makes the public listener serve the console, reading as ql3_console.
func (s *server) servePages(ctx context.Context, publicURL string) error {
	pool, err := s.openPool(ctx, migrations.RoleConsole)
	if err != nil {
		return err
	}
	public, err := url.Parse(publicURL)
	if err != nil {
		return fmt.Errorf("public URL: %w", err)
	}
	s.handler = web.New(web.Config{DB: pool, Log: s.log, PublicURL: public, Ready: s.isReady, Version: version,
		AllowedHosts: []string{"localhost"}, Banner: devBanner})
	return nil
}

// machinesOnly answers the probes and nothing else: what a replica serves that has no sign-in to put before its pages.
func (s *server) machinesOnly() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.isReady() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	return mux
}
