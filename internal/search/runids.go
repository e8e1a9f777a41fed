package search

import (
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// RunIDs is a range of Run ids, both ends included.
type RunIDs struct {
	First, Last uuid.UUID
}

// fewestDigits is how much of an id a list shows; with less, words such as "decade" would be ids.
const fewestDigits = 8

// parseRunIDs reads a Run id or the first eight or more digits of one, in lower case, with its dashes or with none. It
// returns nil for any other text.
func parseRunIDs(text string) *RunIDs {
	digits := strings.ReplaceAll(text, "-", "")
	if len(digits) < fewestDigits || len(digits) > 32 || text != digits && text != dashed(digits, len(text)) {
		return nil
	}
	var ids RunIDs
	if _, err := hex.Decode(ids.First[:], []byte(digits+strings.Repeat("0", 32-len(digits)))); err != nil {
		return nil
	}
	hex.Decode(ids.Last[:], []byte(digits+strings.Repeat("f", 32-len(digits))))
	return &ids
}

// dashed is the first n characters of an id of which the digits are known.
func dashed(digits string, n int) string {
	padded := digits + strings.Repeat("0", 32-len(digits))
	whole := strings.Join([]string{padded[:8], padded[8:12], padded[12:16], padded[16:20], padded[20:]}, "-")
	return whole[:min(n, len(whole))]
}
