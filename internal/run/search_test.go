package run_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/run/runtest"
)

func TestSearchFindsRunsByIDAndUser(t *testing.T) {
	w := newWorld(t)
	first := w.admit(2e9)
	second := runtest.Admit(t, w.Database, "growth", "daily", w.nowMS, w.nowMS)
	mei := person(t, w.super, "Mei Lin", "mei@example.org")
	retried := retryOf(t, w.super, first, mei, run.Failed, w.nowMS)
	both := []string{"ops", "growth"}
	tests := []struct {
		name, text string
		projects   []string
		want       []uuid.UUID
		users      int
	}{
		{"an id", second.String(), both, []uuid.UUID{second}, 0},
		{"the beginning of one", second.String()[:20], both, []uuid.UUID{second}, 0},
		{"of another Project", second.String(), []string{"ops"}, nil, 0},
		{"a user", "mei", both, []uuid.UUID{retried}, 1},
		{"a user seen elsewhere only", "mei", []string{"growth"}, nil, 0},
		{"a Task has a list of its own", "digest", both, nil, 0},
		{"nothing", " ", both, nil, 0},
		{"no Project", second.String(), nil, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, runs, err := run.Search(t.Context(), w.super, tt.projects, tt.text, 10)
			if diff := cmp.Diff(tt.want, ids(runs)); err != nil || diff != "" || len(found.Users) != tt.users {
				t.Errorf("Search(%q) = %d users, %v (-want +got)\n%s", tt.text, len(found.Users), err, diff)
			}
		})
	}
}
