package templates

import "github.com/qinglong/console/internal/text"

// Field is one hidden field of a form.
type Field struct{ Name, Value string }

// Form is what a reader may send. Without an action there is none.
type Form struct {
	Action     string
	Button     text.Text
	Fields     []Field
	AsksReason bool
	Reason     string
	Label      text.Text // of the reason
	Confirm    text.Text // what must be ticked, if anything
	Wrong      text.Text // with what was sent before
	Note       text.Text // what sending it does
	Back       Link      // beside the button, for who does not want to
}

// Ask is the page before a verification: what it is for.
type Ask struct {
	Page
	Name      text.Text
	Status    Status
	Found     text.Text // why a verification that was there is no good
	Sentences []Sentence
	Author    Author
	Warning   text.Text // the provider cannot be reached
	Pairs     []Pair
	Verify    []Pair
	Form      Form
	Family    Family
	Back      Link
}

// Proof is a verification that is good for a while.
type Proof struct {
	Text text.Text
	Left string // minutes and seconds
	Secs string // the same in seconds
}

// Preview is the page of a good verification: what would be done.
type Preview struct {
	Page
	Name    text.Text
	Status  Status
	Proof   Proof
	Heading text.Text // of what has happened
	Since   []Sentence
	Later   Family // newer Runs of the Task
	Family  Family
	Author  Author
	Plan    []Pair
	Checks  []Check
	Changed []Change
	Current text.Text // which revision the changes lead to
	Facts   []Pair    // of what a stop is for
	Submit  Form      // without an action when a check failed
	Again   Form      // verifies again
	Back    Link
}

// Check is one check and how it went.
type Check struct {
	Status Status
	What   text.Text
	Why    text.Text // it failed
}

// Change is one field that differs.
type Change struct{ Field, From, To string }

// Report is what a test of the step-up found, rule by rule.
type Report struct {
	Page
	Sentences []Sentence
	Pairs     []Pair
	Rules     []Check
	Form      Form
}

// Audit is the list of what was allowed and refused.
type Audit struct {
	Page
	Filters   FilterForm
	Projects  []Option
	Outcomes  []Option
	Actions   []Option
	Since     MomentField
	Until     MomentField
	Run       string
	User      string // the only one whose events are shown, for the form to carry
	UserName  string
	Everybody string // the same list of every user's
	Rows      []AuditRow
	Empty     Empty
	Pages     Pages
}

// AuditRow is one event.
type AuditRow struct {
	At       Instant
	Name     text.Text // what was done, or tried
	Action   string    // the same as a stable word
	Outcome  Status
	Reason   text.Text // it was refused
	Word     string    // the same as a stable word
	Actor    Link      // to what else they did
	From     text.Text
	Project  string
	Run      ID
	Trigger  Link
	Batch    Link
	User     Link      // to whom it was done: to what else they did, or was done to them
	Role     text.Text // that they have of it
	Strength text.Text
	Words    []Word
	Facts    string
}

// Word is a part of a free text; one with a URL is a link.
type Word struct{ Text, URL string }

// LiveProof is one of one's own verifications that is still good.
type LiveProof struct {
	What Link
	By   text.Text
	Ends Instant
}
