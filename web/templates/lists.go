package templates

import "github.com/qinglong/console/internal/text"

// FilterForm is what surrounds the filters of a list.
type FilterForm struct {
	Action   string
	Clear    string // the list without filters
	Filtered bool
	More     bool // also by what a small screen does not show at first
	Button   text.Text
	Embed    string    // how the list is viewed, if not as a page
	Zone     string    // in which its times are meant
	Partial  text.Text // that some of what matches are missing, if so
	Wrong    text.Text
	Beside   bool // a field says itself what is wrong with it
}

// MomentField is a field of a filter for a moment, which may be one of its options or any other.
type MomentField struct {
	Name    string
	Label   text.Text
	Value   string
	Options []Option
	Means   Instant   // zero where the value says so itself
	Wrong   text.Text // with the value
}

// Chip is one kind of what a list holds, and how many there are of it: a way to the list of those.
type Chip struct {
	Status  Status
	Count   string
	None    bool
	URL     string
	Current bool // the list is of those
}

// Pages lead through a list. An address is empty where there is nothing, and all of them on a list's only page.
type Pages struct {
	First string
	Back  string
	On    string
	Order Order
}

// Order is how a list is ordered: what its ways and its end are called.
type Order struct{ First, Back, On, End text.Text }

// The orders of lists.
var (
	NewestFirst = Order{text.Of("Newest"), text.Of("Newer"), text.Of("Older"), text.Of("These are the oldest.")}
	NextFirst   = Order{text.Of("First"), text.Of("Earlier"), text.Of("Later"), text.Of("These are the last.")}
)
