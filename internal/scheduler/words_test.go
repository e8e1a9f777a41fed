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
