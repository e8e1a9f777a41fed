package templates

import "github.com/qinglong/console/internal/text"

// Claims is the page of live claims.
type Claims struct {
	Page
	Claims     []Claim
	NoClaims   Empty
	News       []ClaimNews
	MoreNews   text.Text
	NoNews     Empty
	Replicas   []Replica
	NoReplicas Empty
}

// Drain is the time that is left of a claim.
type Drain struct {
	Share string    // of the whole, as SVG wants it
	Left  string    // in seconds
	Of    string    // the whole, in seconds
	Ago   string    // Left as an [Instant] has it: negative
	Words text.Text // Left
}

// ClaimNews is a claim that was not carried through.
type ClaimNews struct {
	Key      string
	Fate     Status
	Schedule Link
	Project  string
	At       Instant
	Due      Instant // what was claimed
	Owner    string
	Version  text.Text
	Reason   text.Text
}
