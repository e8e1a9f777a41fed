package templates

import "github.com/qinglong/console/internal/text"

// Run is one Run.
type Run struct {
	Page
	Name      string
	Whole     string // the name, if it is too long for a head
	ID        string
	Address   string // the page's own, whole, for paper
	Status    Status
	Sentences []Sentence
	Summary   string    // the error summary, whole
	Ended     bool      // nothing of it changes any more
	Attention text.Text // why nobody moves it by itself, if so
	Advice    []text.Text
	Origin    []Pair
	Times     []Pair
	Links     []Link
	Timeline  Timeline
	Attempts  Folded[Attempt]
	Events    Folded[Event]
	More      text.Text // says that not all Events are shown
	Markdown  text.Text // for the incident channel
	Done      text.Text // what the submission that led here came to
	Held      Held
	Author    Author
	Deeds     []Deed
	Family    Family
	Audit     []AuditRow
}

// Attempt is one try at executing a Run.
type Attempt struct {
	Number   string
	Status   Status
	Worker   text.Text
	Started  Instant
	Duration text.Text
	Exit     string
	Reason   text.Text
	Whole    text.Text // the reason, when it is longer than a line
}

// Event is one fact about a Run.
type Event struct {
	Sequence string
	Name     text.Text
	Type     string // the stable word
	At       Instant
	Offset   text.Text // since the first Event
	Actor    text.Text
	Payload  string
}

// Timeline is what a Run did when, to scale. Each line says in words what it draws, so that nothing needs a label inside
// the drawing. Places and lengths are percentages of the time shown.
type Timeline struct {
	Summary text.Text
	Lines   []TimeLine
	Ticks   []Tick
}

// TimeLine is one line of a [Timeline].
type TimeLine struct {
	Name  text.Text
	Value text.Text
	Spans []Span
	Marks []Mark
}

// Span is a time in which something lasted.
type Span struct {
	X, Width string
	Kind     string // late, wait, ok, bad, warn, idle or run
}

// Mark is an instant at which something happened.
type Mark struct {
	X     string
	Tone  string
	Title text.Text
}

// Family is a retry family as a tree: the Run that everything is a retry of first, each retry below its source.
type Family struct {
	Sentence Sentence
	Members  []Member
	More     text.Text // says that not all are shown
}

// Member is one Run of a [Family], or several of one source that need not be seen each.
type Member struct {
	ID      ID
	Status  Status
	Lines   []string // how the tree's lines run before it, from the left: pass, tee, ell or none
	Of      ID       // its source, when the tree is too deep to show it
	By      text.Text
	Reason  string
	Created Instant
	Current bool
	Folded  []Member
	Fold    text.Text // what is folded
}

// Deed is what may be done to a Run, or why it may not.
type Deed struct {
	Link    Link      // empty when it may not
	Why     text.Text // it may not, or may fail
	Hint    text.Text // what it takes
	Primary bool
}

// Held is who holds a Run's Trigger back, since when and why. Without a Trigger nobody does.
type Held struct {
	Trigger Link
	By      string
	Since   Instant
	Reason  []Word
}

// Author is what a Task's author says of running it again.
type Author struct {
	Unsafe bool
	Note   string
}

// Folded is a list of which only the first and the last are seen at once when it is long.
type Folded[T any] struct {
	First, Middle, Last []T
	Fold                text.Text // what the middle is
}
