package templates

import "github.com/qinglong/console/internal/text"

// FilterForm is what surrounds the filters of a list.
type FilterForm struct {
	Action   string
	Clear    string // the list without filters
	Filtered bool
	More     bool // also by what a small screen does not show at first
	Button   text.Text
	Embed    string // how the list is viewed, if not as a page
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
}
