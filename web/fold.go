package web

import "github.com/qinglong/console/internal/scheduler"

const (
	// roomy is how many rows an account may have before instants that were admitted are folded as well: what was not
	// admitted must not have to be looked for among what was.
	roomy   = 60
	maxRows = 150
)

// stretch is a row of an account: an instant, several in succession that met the same end, newest first, or a time
// without replicas between two of those.
type stretch struct {
	instants []scheduler.Instant
	spell    *scheduler.Spell
}

// foldAccount lays a out in at most maxRows rows, newest first, and reports whether some are left out.
func foldAccount(a scheduler.Account) (rows []stretch, more bool) {
	if rows = fold(a, false); len(rows) > roomy {
		rows = fold(a, true)
	}
	return rows[:min(len(rows), maxRows)], len(rows) > maxRows || a.Truncated
}

// fold makes one row of neighbours that met the same end and have no spell between them; of admitted ones only if told.
func fold(a scheduler.Account, admitted bool) (rows []stretch) {
	k := len(a.Spells) - 1 // they come oldest first
	for _, i := range a.Instants {
		apart := len(rows) == 0
		for ; k >= 0 && a.Spells[k].ToMS >= i.AtMS; k-- {
			rows, apart = append(rows, stretch{spell: &a.Spells[k]}), true
		}
		foldable := admitted || i.Verdict != scheduler.WasAdmitted
		if apart || !foldable || !alike(rows[len(rows)-1].instants[0], i) {
			rows = append(rows, stretch{instants: []scheduler.Instant{i}})
			continue
		}
		last := &rows[len(rows)-1]
		last.instants = append(last.instants, i)
	}
	for ; k >= 0 && !a.Truncated; k-- {
		rows = append(rows, stretch{spell: &a.Spells[k]})
	}
	return rows
}

// alike reports whether the same is to be said of both.
func alike(x, y scheduler.Instant) bool {
	return x.Verdict == y.Verdict && x.Reason == y.Reason && x.Revision == y.Revision && x.Mark == y.Mark && x.Unattended == y.Unattended && x.CatchUp == y.CatchUp
}
