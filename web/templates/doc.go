// Package templates turns view models into HTML.
//
// A view model is a struct shaped like its page and already worded for a reader: a template formats nothing, decides
// no rule, calls nothing of ours and queries nothing. Every string in one is text: templ escapes it, and none is ever
// marked as markup.
package templates

import "github.com/qinglong/console/internal/text"

// Page is what surrounds every page's own content.
type Page struct {
	Title      text.Text
	Nav        []NavLink // empty when nobody is signed in
	Who        Who
	Refresh    string // where the page goes on to by itself at once, if not empty
	Home       string
	Stylesheet string
	Script     string
	LiveScript string
	PickScript string
	Picks      bool   // it has rows to choose from
	Search     string // where a search goes
	Whole      string // of an embedded page: where it is to be had whole
	Icon       string
	Banner     text.Text // said on top of every page, if not empty
	Version    string
	AsOf       Instant // the database clock the page was made by; zero on a page made from memory
	RequestID  string
	JSON       string // where the same facts are to be had as JSON, if anywhere
	CSV        string // and as CSV
	Embed      bool   // shown in a frame: without navigation
	Live       bool   // kept current by a stream
	Theme      string // light or dark, if the reader chose one
	Choices    Preferences
}

// NavLink is one entry of the main navigation.
type NavLink struct {
	Text    text.Text
	URL     string
	Key     string // pressed after g
	Current bool
}

// Link is a link, or plain text when URL is empty.
type Link struct {
	Text text.Text
	URL  string
}

// Instant is a point in time. The zero Instant is not known.
type Instant struct {
	Machine  string    // RFC 3339, UTC, milliseconds
	Text     string    // absolute, in UTC
	Relative text.Text // "4 min ago"; never shown alone
	Ago      string    // seconds before the page was made, negative for the future
}

// ID is an identity, shortened, with the whole in its title.
type ID struct {
	Short string
	Whole string
	URL   string
}

// Status is a word, a shape and a colour, in that order of importance.
type Status struct {
	Word  text.Text
	Shape string // disc, triangle, ring, half, arrow, square, hourglass, diamond or pause
	Tone  string // ok, bad, warn, idle or run
}

// Fact is one large number.
type Fact struct {
	Value text.Text
	Label text.Text
	Tone  string
}

// Sentence says one thing about the whole; Lead is stressed, and a link if there is an URL. How long until At, if it is
// known, stands after it.
type Sentence struct {
	Lead text.Text
	At   Instant
	Rest text.Text
	Tone string
	URL  string
}

// Empty is what a list says in place of rows: why there are none, and what to do.
type Empty struct {
	Why  text.Text
	What text.Text
	Near []Link // what may have been meant
	Link Link
}

// Option is one choice of a select.
type Option struct {
	Value    string
	Text     text.Text
	Selected bool
}

// Overview is the home page.
type Overview struct {
	Page
	Sentences    []Sentence
	Facts        []Fact
	Charts       []Chart // of the last hour
	Upcoming     Axis
	Spells       []Spell
	MoreSpells   text.Text
	Attention    []RunRow // their reason is why they need it
	MoreOfThem   text.Text
	Failures     []FailureRow
	AllFailures  string
	ByTask       string    // the same, and older ones, by Task
	MoreFailures text.Text // says that not all were looked at
	NoFailures   Empty
	Replicas     []Replica
	NoReplicas   Empty
	Claims       []Claim
	NoClaims     Empty
}

// FailureRow is what went wrong with one Task of late, and what became of it or the way to a retry.
type FailureRow struct {
	Key         string
	Task        Link
	Project     string
	Total       text.Text
	Newest      FailureOf
	Answered    text.Text // how many were retried since
	Retried     ID        // the newest retry of the newest one
	RetryStatus Status
	Answer      Link
}

// Axis is a line of instants to come.
type Axis struct {
	Summary text.Text
	Spots   []Spot
	Ticks   []Tick
	Rows    []UpcomingRow
	More    text.Text // says that not all rows are shown
	Empty   Empty
}

// Spot is one instant on an [Axis]; a spot with a label is drawn larger and leads somewhere.
type Spot struct {
	X      string
	Title  text.Text
	Label  text.Text
	Anchor string // start or end: on which side of the spot the label is
	URL    string
}

// UpcomingRow is one Schedule that falls due on an [Axis], and how often.
type UpcomingRow struct {
	At       Instant
	Schedule Link
	Project  string
	Count    string
}

// Replica is one running instance.
type Replica struct {
	Name    string
	Status  Status
	Version string
	Ticked  Instant
	Skew    text.Text
	Off     Status // says that its clock is wrong, if it is
	Claims  text.Text
}

// Claim is one live claim.
type Claim struct {
	Key      string
	Owner    string
	Schedule Link
	Project  string
	Token    string // shortened
	Version  string
	Acquired Instant
	Left     text.Text
	Drain    Drain
}

// RunRow is one line of a list of Runs.
type RunRow struct {
	ID       ID
	Status   Status
	Reason   text.Text
	Task     Link
	Project  string
	Origin   Link
	Created  Instant
	Lateness text.Text
	Duration text.Text
	SoFar    string // seconds since it started, of one that has not ended
	Pick     Pick
	Held     Status // of its Trigger, if somebody holds it back

	// The newest Run of its retry family, if that is another: it stands for this one now.
	Answer       ID
	AnswerStatus Status
}

// Runs is the list of Runs.
type Runs struct {
	Page
	Filters  FilterForm
	Projects []Option
	Origins  []Option
	Status   string // those chosen, for the form to carry
	Task     string
	Tasks    []Option // some to choose from
	Trigger  string
	Triggers []Option
	Since    MomentField
	Until    MomentField
	Text     string
	Chips    []Chip
	Rows     []RunRow
	Kept     *Kept // of the rows, if there are any
	Empty    Empty
	Pages    Pages
	Views    []NavLink // the list, and others of the same Runs
	Picking  Picking
	Group    string // by what it is grouped, for the form to carry
	Retried  string // whether by then, for the form to carry
	Grouped  bool
	Incident Incident
}

// Pair is one line of a description. A part that is not there is empty.
type Pair struct {
	Name    text.Text
	Link    Link
	Instant Instant
	Mono    string // a digest, a token, an expression
	Title   string // the whole of Mono
	Note    text.Text
	Words   []Word // a free text
	Tone    string
}

// Schedules is the list of Schedules.
type Schedules struct {
	Page
	Filters  FilterForm
	Projects []Option
	State    string // the one chosen, for the form to carry
	Text     string
	Chips    []Chip
	Rows     []ScheduleRow
	Kept     *Kept // of the rows, if there are any
	Empty    Empty
	Pages    Pages
}

// ScheduleRow is one line of the list of Schedules.
type ScheduleRow struct {
	Key        string
	Name       Link
	Project    string
	Status     Status
	Reason     text.Text // why it is blocked, who paused it and why, who holds it
	Left       text.Text // for how long who holds it does yet
	LeftS      string    // the same in seconds, negative
	Task       string
	Words      text.Text
	Cron       string
	Zone       string
	Next       Instant
	Since      Instant   // when it was paused, if it is
	Local      text.Text // the next on its own clock, where that is another
	Paused     text.Text // for how long
	OnItsClock text.Text // the same with the date
	Last       Instant
	LastRun    RunRow
}

// Schedule is one Schedule.
type Schedule struct {
	Page
	Name        string
	Status      Status
	Project     string
	Words       text.Text
	Cron        string
	Zone        string
	Sentences   []Sentence
	Reason      text.Text // why it is blocked or disabled, whole
	Pause       []Pair    // who holds it back, since when and why; none when nobody does
	Idle        text.Text // why nothing comes of the occurrences
	Timing      Timing
	Occurrences []Occurrence
	Account     Account
	Holding     Holding
	NoNext      Empty
	Fence       []Pair
	Pins        []Pair
	Runs        []RunRow
	NoRuns      Empty
	AllRuns     string
	Markdown    text.Text
}

// Timing is what a Trigger's content says about time, explained.
type Timing struct {
	Words   text.Text
	Fields  []CronField
	Zone    string
	Clock   text.Text // what a change of the clock does
	Misfire text.Text // the policy
	Late    text.Text // what it means
}

// CronField is one field of a cron expression.
type CronField struct {
	Name  text.Text
	Value string
}

// Occurrence is one instant to come.
type Occurrence struct {
	Local text.Text // in the Schedule's zone
	UTC   Instant
	Mark  text.Text // what daylight saving does to it
}

// Spell is a time in which something was so. One without an end lasts.
type Spell struct {
	From Instant
	To   Instant
	Long text.Text
}

// Account is what became of every instant at which a Schedule was expected to fire in a range.
type Account struct {
	Ranges     []NavLink
	Form       FilterForm // with a range of its own
	From, To   MomentField
	JSON, CSV  string
	Lane       Lane
	Sentences  []Sentence
	Since      Instant
	Until      Instant
	Kept       text.Text // says that the range reaches back further than what is known
	Spells     []Spell   // without any replica
	MoreSpells text.Text
	Zone       string // the Trigger's; empty when it is UTC, which is shown already
	Rows       []AccountRow
	Empty      Empty
	Older      string
}

// AccountRow is one instant, or several in succession that met the same end, or a time without replicas between them.
type AccountRow struct {
	Spell       Spell // if it is one, the rest is empty
	Anchor      string
	Loud        bool
	Local       []text.Text // in the Trigger's zone; none when that is UTC
	First, Last Instant
	Count       text.Text // empty for a single instant
	Verdict     Status
	Why         text.Text
	Archived    Spell     // the Project was, at that time
	Mark        text.Text // what daylight saving does to it
	Run         ID
	RunStatus   Status
	Runs        Link // in place of one Run
	EachOf      text.Text
	Each        []Each
}

// Each is one instant of several in an [AccountRow].
type Each struct {
	At     Instant
	Anchor string
	Run    Link
	Status Status
}

// Problem is a page that says what happened, what was not done, and the next step.
type Problem struct {
	Page
	Status  string
	What    text.Text
	NotDone text.Text
	Next    text.Text
	Command string // to be copied, if there is one
	Pairs   []Pair
	Form    Form // that may be sent next, if it has an action
	Back    Link
}

// Preferences are what a reader may choose about every page.
type Preferences struct {
	Action    string // where the form goes
	To        string // the page to come back to, for the form to carry
	Languages []Option
	Themes    []Option
}
