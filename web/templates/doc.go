// Package templates turns view models into HTML.
//
// A view model is a struct shaped like its page and already worded for a reader: a template formats nothing, decides
// no rule, calls nothing of ours and queries nothing. Every string in one is text: templ escapes it, and none is ever
// marked as markup.
package templates

// Page is what surrounds every page's own content.
type Page struct {
	Title      string
	Nav        []NavLink // empty when nobody is signed in
	Who        Who
	Refresh    string // where the page goes on to by itself at once, if not empty
	Home       string
	Stylesheet string
	Script     string
	Icon       string
	Banner     string // said on top of every page, if not empty
	Version    string
	AsOf       Instant // the database clock the page was made by; zero on a page made from memory
	RequestID  string
	JSON       string // where the same facts are to be had as JSON, if anywhere
}

// NavLink is one entry of the main navigation.
type NavLink struct {
	Text    string
	URL     string
	Key     string // pressed after g
	Current bool
}

// Link is a link, or plain text when URL is empty.
type Link struct {
	Text string
	URL  string
}

// Instant is a point in time. The zero Instant is not known.
type Instant struct {
	Machine  string // RFC 3339, UTC, milliseconds
	Text     string // absolute, in UTC
	Relative string // "4 min ago"; never shown alone
	Ago      string // seconds before the page was made, negative for the future
}

// ID is an identity, shortened, with the whole in its title.
type ID struct {
	Short string
	Whole string
	URL   string
}

// Status is a word, a shape and a colour, in that order of importance.
type Status struct {
	Word  string
	Shape string // disc, triangle, ring, half, arrow, square, hourglass, diamond or pause
	Tone  string // ok, bad, warn, idle or run
}

// Fact is one large number.
type Fact struct {
	Value string
	Label string
	Tone  string
}

// Sentence says one thing about the whole; Lead is stressed, and a link if there is an URL.
type Sentence struct {
	Lead string
	Rest string
	Tone string
	URL  string
}

// Empty is what a list says in place of rows: why there are none, and what to do.
type Empty struct {
	Why  string
	What string
	Link Link
}

// Option is one choice of a select.
type Option struct {
	Value    string
	Text     string
	Selected bool
}

// Overview is the home page.
type Overview struct {
	Page
	Sentences  []Sentence
	Facts      []Fact
	Admissions Bars
	Outcomes   Shares
	Upcoming   Axis
	Spells     []Spell
	MoreSpells string
	Attention  []RunRow // their reason is why they need it
	MoreOfThem string
	Failures   []RunRow
	NoFailures Empty
	Replicas   []Replica
	NoReplicas Empty
	Claims     []Claim
	NoClaims   Empty
}

// Bars is a chart of one number a slot. Sizes are percentages of the chart, as SVG wants them.
type Bars struct {
	Summary  string // the chart in words
	Bars     []Bar
	From, To string
}

// Bar is one slot of [Bars].
type Bar struct {
	X, Width, Y, Height string
}

// Shares is a chart of parts of a whole.
type Shares struct {
	Summary string
	Parts   []Share
}

// Share is one part of [Shares].
type Share struct {
	X, Width string
	Status   Status
	Count    string
	URL      string
}

// Axis is a line of instants.
type Axis struct {
	Summary string
	Spots   []Spot
	From    Instant
	To      Instant
	Empty   Empty
}

// Spot is one instant on an [Axis]; a spot with a label is drawn larger.
type Spot struct {
	X      string
	Label  string
	Anchor string // start or end: on which side of the spot the label is
}

// Replica is one running instance.
type Replica struct {
	Name    string
	Status  Status
	Version string
	Ticked  Instant
	Skew    string
	Off     Status // says that its clock is wrong, if it is
	Claims  string
}

// Claim is one live claim.
type Claim struct {
	Owner    string
	Schedule Link
	Project  string
	Token    string // shortened
	Version  string
	Acquired Instant
	Left     string
}

// RunRow is one line of a list of Runs.
type RunRow struct {
	ID       ID
	Status   Status
	Reason   string
	Task     Link
	Project  string
	Origin   Link
	Created  Instant
	Lateness string
	Duration string
}

// Runs is the list of Runs.
type Runs struct {
	Page
	Action   string // where the filter form goes
	Projects []Option
	Statuses []Option
	Since    []Option
	Task     string
	Trigger  string
	Until    string // kept when it came with the URL
	Filtered bool
	Rows     []RunRow
	Empty    Empty
	Older    string
	Newest   string
}

// Run is one Run.
type Run struct {
	Page
	Name      string
	ID        string
	Status    Status
	Sentences []Sentence
	Summary   string // the error summary, whole
	Attention string // why nobody moves it by itself, if so
	Advice    []string
	Origin    []Pair
	Times     []Pair
	Links     []Link
	Attempts  []Attempt
	Events    []Event
	More      string // says that not all Events are shown
	Markdown  string // for the incident channel
	Done      string // what the submission that led here came to
	Deeds     []Deed
	Family    Family // without members when nothing was retried
	Audit     []AuditRow
}

// Pair is one line of a description. A part that is not there is empty.
type Pair struct {
	Name    string
	Link    Link
	Instant Instant
	Mono    string // a digest, a token, an expression
	Title   string // the whole of Mono
	Note    string
	Tone    string
}

// Attempt is one try at executing a Run.
type Attempt struct {
	Number   string
	Status   Status
	Worker   string
	Started  Instant
	Duration string
	Exit     string
	Reason   string
}

// Event is one fact about a Run.
type Event struct {
	Sequence string
	Type     string
	At       Instant
	Offset   string // since the first Event
	Actor    string
	Payload  string
}

// Schedules is the list of Schedules.
type Schedules struct {
	Page
	Action   string
	Projects []Option
	States   []Option
	Text     string
	Filtered bool
	Rows     []ScheduleRow
	Empty    Empty
	Later    string
	First    string
}

// ScheduleRow is one line of the list of Schedules.
type ScheduleRow struct {
	Name    Link
	Project string
	Status  Status
	Reason  string
	Task    string
	Words   string
	Cron    string
	Zone    string
	Next    Instant
	Last    Instant
	LastRun RunRow
	Claim   string
}

// Schedule is one Schedule.
type Schedule struct {
	Page
	Name        string
	Status      Status
	Project     string
	Words       string
	Cron        string
	Zone        string
	Sentences   []Sentence
	Reason      string // why it is blocked or disabled, whole
	Occurrences []Occurrence
	Account     Account
	NoNext      Empty
	Fence       []Pair
	Pins        []Pair
	Runs        []RunRow
	NoRuns      Empty
	AllRuns     string
	Markdown    string
}

// Occurrence is one instant to come.
type Occurrence struct {
	Local string // in the Schedule's zone
	UTC   Instant
	Mark  string // what daylight saving does to it
}

// Spell is a time in which something was so. One without an end lasts.
type Spell struct {
	From Instant
	To   Instant
	Long string
}

// Account is what became of every instant at which a Schedule was expected to fire in a range.
type Account struct {
	Ranges     []NavLink
	Action     string // where the form with a range of its own goes
	From, To   string // that form's values
	JSON       string
	Sentences  []Sentence
	Since      Instant
	Until      Instant
	Kept       string  // says that the range reaches back further than what is known
	Spells     []Spell // without any replica
	MoreSpells string
	Zone       string // the Trigger's; empty when it is UTC, which is shown already
	Rows       []AccountRow
	Empty      Empty
	Older      string
}

// AccountRow is one instant, or several in succession that met the same end, or a time without replicas between them.
type AccountRow struct {
	Spell       Spell // if it is one, the rest is empty
	Loud        bool
	Local       []string // in the Trigger's zone; none when that is UTC
	First, Last Instant
	Count       string // empty for a single instant
	Verdict     Status
	Why         string
	Archived    Spell  // the Project was, at that time
	Mark        string // what daylight saving does to it
	Run         ID
	RunStatus   Status
	Runs        Link // in place of one Run
	EachOf      string
	Each        []Each
}

// Each is one instant of several in an [AccountRow].
type Each struct {
	At     Instant
	Run    Link
	Status Status
}

// Problem is a page that says what happened, what was not done, and the next step.
type Problem struct {
	Page
	Status  string
	What    string
	NotDone string
	Next    string
	Command string // to be copied, if there is one
	Pairs   []Pair
	Form    Form // that may be sent next, if it has an action
	Back    Link
}
