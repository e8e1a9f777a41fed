package templates

import "github.com/qinglong/console/internal/text"

// Batches is the list of batches.
type Batches struct {
	Page
	Filters  FilterForm
	Projects []Option
	By       []Option
	Views    []NavLink
	Rows     []BatchesRow
	Empty    Empty
	Pages    Pages
}

// BatchesRow is one line of the list of batches.
type BatchesRow struct {
	Key     string
	Name    Link
	Project string
	Status  Status
	Counts  text.Text // where the status does not say all
	By      string
	At      Instant // when it was submitted, or selected
	Words   text.Text
}
