package templates

import "github.com/qinglong/console/internal/text"

// Chart is numbers over a time, drawn, and the same as a table. Places and sizes along it are percentages, as SVG wants
// them, so that it is as wide as there is room; heights are of its plot.
type Chart struct {
	Title   text.Text
	Summary text.Text // in words
	Top     text.Text // what its highest place stands for
	Columns []Column
	Lines   []Line
	Ticks   []Tick
	Legend  []Status
	Table   Table
}

// Column is a stack of blocks over one stretch of the time, or nothing but its title.
type Column struct {
	X, Width string
	Blocks   []Block
	Title    text.Text
	URL      string
	Sign     Status // of what needs a look there, if anything does
	SignX    string
}

// Block is one part of a [Column].
type Block struct {
	Y, Height string
	Tone      string
}

// Line is drawn through a plane 100 wide and 100 high.
type Line struct {
	Path string
	Tone string
	Area bool // filled down to the base
}

// Tick names a place along a chart.
type Tick struct {
	X      string
	Anchor string // start, middle or end: how its words stand to it
	Text   text.Text
}

// Table is what a chart shows, in rows that each begin with a time.
type Table struct {
	Head []text.Text
	Rows []TableRow
}

// TableRow is one row of a [Table]; with an URL its time leads there.
type TableRow struct {
	At    Instant
	URL   string
	Cells []text.Text
}

// Lane is what became of the instants of a range as a picture: one mark for each, or, when they are many, one column for
// those of each part of the range.
type Lane struct {
	Summary text.Text
	Note    text.Text // how to read it
	Bands   []Band
	Marks   []LaneMark
	Columns []Column
	Ticks   []Tick
	Legend  []LegendItem
	Table   Table // of the columns; the marks' is the account's own
}

// LaneMark is one instant on a [Lane].
type LaneMark struct {
	X      string
	Status Status
	Title  text.Text
	URL    string
}

// Band is a time in which something was so, behind the marks of a [Lane].
type Band struct {
	X, Width string
	Kind     string    // alone, paused, archived or unknown
	Label    text.Text // empty where there is no room for it
	LabelX   string
	Title    text.Text
}

// LegendItem says what a shape on a [Lane] stands for and how often it is there; or, with a kind, what a band does.
type LegendItem struct {
	Status Status
	Count  string
	Kind   string
}
