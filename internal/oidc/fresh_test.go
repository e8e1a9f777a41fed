package oidc

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
)

// Freshness is judged by auth_time and by the clock of the statement that spent the answer.
func TestFresh(t *testing.T) {
	const begun, spentAt = 1_000_000_000, 1_000_400_000 // ms
	tests := []struct {
		name string
		at   int64 // s
		want Kind
	}{
		{"in between", spentAt/1000 - 1, ""},
		{"a minute of skew before", spentAt/1000 - 299, ""},
		{"five minutes ago", spentAt/1000 - 300, TooOld},
		{"a minute of skew ahead", spentAt/1000 + 60, ""},
		{"in the future", spentAt/1000 + 61, BadToken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := kindOf(fresh(claimsOf(t, tt.at), spent{begunAtMS: begun, spentAtMS: spentAt})); got != tt.want {
				t.Errorf("fresh() = %q, want %q", got, tt.want)
			}
		})
	}
	if got := kindOf(fresh(claimsOf(t, begun/1000-61), spent{begunAtMS: begun, spentAtMS: begun})); got != TooOld {
		t.Errorf("fresh(authenticated before it was begun) = %q, want %q", got, TooOld)
	}
}

func claimsOf(t *testing.T, authTime int64) (c claims) {
	t.Helper()
	if err := json.Unmarshal(fmt.Appendf(nil, `{"auth_time":%d}`, authTime), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A step-up ends in the session that began it, and with the User that began it: each is compared by itself.
func TestStepUpEndsWhereItBegan(t *testing.T) {
	session, user, other := uuid.New(), uuid.New(), uuid.New()
	for name, asked := range map[string]stepUpAsked{
		"another session": {session: &other, user: &user},
		"another user":    {session: &session, user: &other},
		"no session":      {user: &user},
		"no user":         {session: &session},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(StepUp).complete(t.Context(), nil, "", nil, spent{stepUp: asked}, Session{ID: session, UserID: user}, Client{})
			if kindOf(err) != SessionEnded {
				t.Errorf("complete() = %v, want %s", err, SessionEnded)
			}
		})
	}
}
