package scheduler

import (
	"strings"

	"github.com/qinglong/console/internal/text"
)

// Why an instant is not decided, as [ReadAccount] finds it.
var (
	nothingRecorded = text.Of("nothing is recorded of this instant; please report it")
	notDue          = text.Of("not due yet")
	noReplica       = text.Of("no replica was running then")
	notClaimed      = text.Of("due, and not yet claimed")
)

// What begins a reason that goes on with what was found.
const (
	claimedBy     = "claimed by "
	misfirePolicy = "misfire policy "
	pausedBy      = "paused by "
	pausedFor     = "paused: "
	whilePaused   = " while it was paused: " // after what else happened
)

var reasons = []text.Text{nothingRecorded, notDue, noReplica, notClaimed, text.Of("the Project was archived")}

// Why says the Reason of an [Instant] to a person; of a pause, why it was, which the verdict names already. A reason that nothing here or in catalog gives is said as it stands.
func Why(reason string) text.Text {
	for _, r := range reasons {
		if r.String() == reason {
			return r
		}
	}
	if owner, ok := strings.CutPrefix(reason, claimedBy); ok {
		return text.Of("claimed by %s", owner)
	}
	if policy, ok := strings.CutPrefix(reason, misfirePolicy); ok {
		return text.Of("misfire policy %s", policy)
	}
	if why, ok := strings.CutPrefix(reason, pausedFor); ok {
		return text.Data(why)
	}
	if also, why, ok := strings.Cut(reason, whilePaused); ok {
		return text.Join(text.Data("; "), text.Data(why), Why(also))
	}
	if revision, ok := strings.CutPrefix(reason, "revision "); ok && strings.HasSuffix(revision, " was published") {
		return text.Of("revision %s was published", strings.TrimSuffix(revision, " was published"))
	}
	if who, ok := strings.CutPrefix(reason, pausedBy); ok {
		who, why, _ := strings.Cut(who, ": ")
		return text.Of("by %s: %s", who, why)
	}
	return text.Data(reason)
}
