package cron

import (
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// A full set has every value of its field.
var full = [6]uint64{
	second:     1<<60 - 1,
	minute:     1<<60 - 1,
	hour:       1<<24 - 1,
	dayOfMonth: 1<<32 - 2,
	month:      1<<13 - 2,
	dayOfWeek:  1<<7 - 1,
}

// canonical spells the sets so that reading them back gives the same sets and
// the same stars.
func canonical(sets [6]uint64, stars [6]bool) string {
	var columns [6]string
	for i, set := range sets {
		columns[i] = spell(i, set, stars[i])
	}
	if sets[second] == 1 {
		return strings.Join(columns[minute:], " ")
	}
	return strings.Join(columns[:], " ")
}

// spell writes one field. A leading star is kept or left out as it was, because
// in hour, day of month and day of week it changes the meaning.
func spell(i int, set uint64, star bool) string {
	if star {
		return spellStar(i, set)
	}
	return list(set)
}

// spellStar writes a set with a star in front: the finest step the set
// contains, then the values that are left. There is always one, because the set
// came from a field that began with such a step and so has the lowest value.
func spellStar(i int, set uint64) string {
	n := 1
	for multiples(i, n)&^set != 0 {
		n++
	}
	text := "*"
	if n > 1 {
		text += "/" + strconv.Itoa(n)
	}
	if rest := set &^ multiples(i, n); rest != 0 {
		text += "," + list(rest)
	}
	return text
}

// multiples returns the set of */n.
func multiples(i, n int) uint64 {
	var set uint64
	for v := fields[i].min; v <= fields[i].max; v += n {
		set |= 1 << v
	}
	return set & full[i]
}

// list writes the values of set in order, a run of three or more as its ends.
func list(set uint64) string {
	var elements []string
	for lo, hi := range runs(set) {
		element := strconv.Itoa(lo)
		if lo < hi {
			element += "-" + strconv.Itoa(hi)
		}
		elements = append(elements, element)
	}
	return strings.Join(elements, ",")
}

// runs yields the values of set in order: of three or more in succession the
// first and the last, and otherwise each by itself.
func runs(set uint64) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for set != 0 {
			lo := bits.TrailingZeros64(set)
			n := bits.TrailingZeros64(^(set >> lo))
			if n < 3 {
				n = 1
			}
			if !yield(lo, lo+n-1) {
				return
			}
			set &^= (1<<n - 1) << lo
		}
	}
}
