package scheduler

import (
	"context"
	"time"

	"github.com/qinglong/console/internal/run"
)

const recoveryTimeout = 30 * time.Second

// Recover is the last thing before admission opens: Runs that no living component owns become lost, bounded and from
// durable evidence alone. What else is out of shape is left alone; run.NeedAttention lists it.
func (s *Scheduler) Recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	lost, err := run.Recover(ctx, s.Pool, s.Replica)
	if lost > 0 {
		s.Log.WarnContext(ctx, "runs without a living lease are lost", "runs", lost)
		s.Hints.Changed()
	}
	return err
}
