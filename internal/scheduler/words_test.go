package scheduler

import (
	"testing"

	"github.com/qinglong/console/internal/text"
)

// Every reason says in English what it is, and those that are known are messages.
func TestWhy(t *testing.T) {
	chinese := text.Catalogue{"not due yet": "尚未到期", "claimed by %s": "已由 %s 认领", "misfire policy %s": "错过策略 %s",
		"revision %s was published": "已发布修订版 %s", "the Project was archived": "项目已归档"}
	for reason, want := range map[string]string{
		"": "", "not due yet": "尚未到期", "claimed by replica-1": "已由 replica-1 认领", "misfire policy skip": "错过策略 skip",
		"revision 2 was published": "已发布修订版 2", "the Project was archived": "项目已归档", "no such zone: 100%s": "no such zone: 100%s",
	} {
		if got := Why(reason); got.String() != reason || got.In(chinese) != want {
			t.Errorf("Why(%q) = %q, in Chinese %q, want %q", reason, got, got.In(chinese), want)
		}
	}
}

// The account names the pause itself; its reason says why, and what else happened.
func TestWhyPaused(t *testing.T) {
	chinese := text.Catalogue{"revision %s was published": "已发布修订版 %s"}
	for reason, want := range map[string][2]string{
		"paused by alice: the bank is down":                              {"by alice: the bank is down", "by alice: the bank is down"},
		"paused: the bank is down":                                       {"the bank is down", "the bank is down"},
		"revision 2 was published while it was paused: the bank is down": {"the bank is down; revision 2 was published", "the bank is down; 已发布修订版 2"},
	} {
		if got := Why(reason); got.String() != want[0] || got.In(chinese) != want[1] {
			t.Errorf("Why(%q) = %q, in Chinese %q, want %q", reason, got, got.In(chinese), want)
		}
	}
}
