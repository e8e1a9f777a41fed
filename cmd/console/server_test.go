package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/qinglong/console/internal/scheduler"
	"github.com/qinglong/console/migrations"
)

// When the database is lost admission is withdrawn before anything is waited for: a part that takes its time to end does
// not keep the replica ready.
func TestAdmissionEndsBeforeTheDrain(t *testing.T) {
	urls := databases{migrations.RoleRuntime: "postgres://ql3_runtime@127.0.0.1:1/console"} // lost from the beginning
	s, err := newServer(t.Context(), scheduler.Defaults(), urls, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	draining, drained, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s.beside = []func(context.Context){func(ctx context.Context) {
		<-ctx.Done()
		close(draining)
		<-drained
	}}
	go func() { ended <- s.admit(t.Context()) }()
	<-draining
	if s.isReady() {
		t.Error("the replica is ready although its database is lost")
	}
	close(drained)
	if err := <-ended; err != nil {
		t.Errorf("admit() = %v", err)
	}
}
