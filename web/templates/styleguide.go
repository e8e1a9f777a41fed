package templates

import "github.com/qinglong/console/internal/text"

// Styleguide shows every component in every state, to whoever changes one. What it says in its samples is data: nobody
// else reads it, and it is not in the catalogues.
type Styleguide struct {
	Page
	Statuses []Status // every one there is
}

// The samples are what pages really show, at its longest and its shortest.

var sampleLong = "Rechnungsexport-für-alle-Mandanten-der-Region-Nord-mit-Nachlauf-und-Abgleich"

func sampleAt(clock, relative, ago string) Instant {
	return Instant{Machine: "2026-11-29T" + clock + ".000Z", Text: "2026-11-29 " + clock + " UTC", Relative: text.Data(relative), Ago: ago}
}

func sampleStatus(word, shape, tone string) Status {
	return Status{Word: text.Data(word), Shape: shape, Tone: tone}
}

func sampleID(short string) ID {
	return ID{Short: short + "…4001", Whole: short + "-fa4a-720f-a625-501752304001", URL: "#ids"}
}

var (
	sampleFailed = sampleStatus("failed", "triangle", "bad")
	sampleOK     = sampleStatus("succeeded", "disc", "ok")
)

var sampleSentences = [][]Sentence{
	{{Lead: text.Data("2 replicas"), Rest: text.Data("are admitting on time.")}},
	{{Lead: text.Data("3 Schedules"), Rest: text.Data("cannot be decided."), Tone: "bad", URL: "#sentences"}, {Lead: text.Data("12 Runs"), Rest: text.Data("need attention."), Tone: "warn", URL: "#sentences"}},
	{{Lead: text.Data(sampleLong), Rest: text.Data("ran at 03:00:00, 8 ms late, and succeeded."), Tone: "ok"}},
}

var sampleFacts = []Fact{{Value: text.Data("1,204"), Label: text.Data("admitted, last hour")}, {Value: text.Data("8 ms"), Label: text.Data("lateness, median · 99th 41 ms")},
	{Value: text.Data("10,000+"), Label: text.Data("due now, oldest 3 min late"), Tone: "warn"}, {Value: text.Data("+2 s"), Label: text.Data("largest clock skew"), Tone: "bad"}}

var samplePairs = []Pair{
	{Name: text.Data("Link"), Link: Link{Text: text.Data(sampleLong), URL: "#pairs"}},
	{Name: text.Data("Instant"), Instant: sampleAt("03:00:00", "4 h 12 min ago", "15120")},
	{Name: text.Data("Digest"), Mono: "sha256 0a1b2c3d…9f8e", Title: "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d79f8e"},
	{Name: text.Data("Note"), Note: text.Data("differs from what was seen"), Tone: "warn"},
	{Name: text.Data("Nothing")},
}

var sampleEmpties = []Empty{
	{Why: text.Data("No Run matches."), What: text.Data("The filter is narrower than what there is."), Link: Link{Text: text.Data("All Runs"), URL: "#empty"}},
	{Why: text.Data("No Run has failed."), What: text.Data("Nothing needs to be done.")},
}

var sampleChecks = []Check{
	{Status: sampleStatus("passed", "disc", "ok"), What: text.Data("The Run is as you saw it")},
	{Status: sampleStatus("failed", "triangle", "bad"), What: text.Data("The Task is enabled"), Why: text.Data("It was disabled 3 min ago.")},
	{Status: sampleStatus("later", "ring", "idle"), What: text.Data("The quota has room")},
}

var sampleDeeds = [][]Deed{
	{{Link: Link{Text: text.Data("Retry"), URL: "#deeds"}, Hint: text.Data("takes a second factor"), Primary: true}},
	{{Link: Link{Text: text.Data("Stop"), URL: "#deeds"}}, {Why: text.Data("It cannot be retried while it runs.")}},
}

var sampleForm = Form{Action: "#forms", Button: text.Data("Verify and preview"), AsksReason: true, Reason: "billing was down", Confirm: text.Data("I have asked accounting")}

var sampleFamily = Family{
	Sentence: Sentence{Lead: text.Data("The second retry succeeded."), Rest: text.Data("Nothing needs to be done."), Tone: "ok"},
	Members: []Member{
		{ID: sampleID("01a2295e"), Status: sampleFailed, Created: sampleAt("03:00:00", "4 h ago", "14400")},
		{ID: sampleID("01a2295f"), Status: sampleStatus("timed out", "hourglass", "warn"), Lines: []string{"tee"}, By: text.Data("by Omar Operator"), Reason: sampleLong, Created: sampleAt("03:10:00", "3 h 50 min ago", "13800"), Current: true},
		{ID: sampleID("01a22960"), Status: sampleOK, Lines: []string{"pass", "ell"}, By: text.Data("by Olga Owner"), Reason: "billing is back", Created: sampleAt("03:20:00", "3 h 40 min ago", "13200")},
		{Lines: []string{"ell"}, Fold: text.Data("2 more retries, both failed"), Folded: []Member{
			{ID: sampleID("01a22961"), Status: sampleFailed, Created: sampleAt("03:30:00", "3 h 30 min ago", "12600")},
			{ID: sampleID("01a22962"), Status: sampleFailed, Created: sampleAt("03:31:00", "3 h 29 min ago", "12540"), Of: sampleID("01a2295e")}}},
	},
	More: text.Data("And more: these are the first."),
}

var sampleTimeline = Timeline{
	Summary: text.Data("1 min 12 s from the instant it was due to its end."),
	Lines: []TimeLine{
		{Name: text.Data("Late"), Value: text.Data("8 s"), Spans: []Span{{X: "0%", Width: "11%", Kind: "late"}}},
		{Name: text.Data("Waited"), Value: text.Data("20 s"), Spans: []Span{{X: "11%", Width: "28%", Kind: "wait"}}},
		{Name: text.Data("Attempt 1"), Value: text.Data("lost"), Spans: []Span{{X: "39%", Width: "20%", Kind: "warn"}}},
		{Name: text.Data("Attempt 2"), Value: text.Data("44 s, failed"), Spans: []Span{{X: "59%", Width: "41%", Kind: "bad"}}, Marks: []Mark{{X: "99.5%", Tone: "bad", Title: text.Data("failed")}}},
		{Name: text.Data("Succeeded"), Value: text.Data("1 s"), Spans: []Span{{X: "90%", Width: "5%", Kind: "ok"}, {X: "95%", Width: "5%", Kind: "run"}}},
	},
	Ticks: []Tick{{X: "0%", Anchor: "start", Text: text.Data("0 s")}, {X: "50%", Anchor: "middle", Text: text.Data("36 s")}, {X: "100%", Anchor: "end", Text: text.Data("1 min 12 s")}},
}

var sampleAttempts = []Attempt{
	{Number: "2", Status: sampleStatus("running", "arrow", "run"), Worker: text.Data("local-executor"), Started: sampleAt("03:00:10", "5 s ago", "5")},
	{Number: "1", Status: sampleFailed, Worker: text.Data(sampleLong), Started: sampleAt("03:00:00", "15 s ago", "15"), Duration: text.Data("1 h 12 min"), Exit: "137",
		Reason: text.Data("connection to billing refused…"), Whole: text.Data("connection to billing refused, tried three times, the last after 30 s")},
}

var sampleEvents = []Event{
	{Sequence: "1", Name: text.Data("created"), Type: "run.created", At: sampleAt("03:00:00", "", ""), Offset: text.Data("0 ms"), Actor: text.Data("replica vm/1/ab")},
	{Sequence: "2", Name: text.Data("asked to stop"), Type: "run.cancel_requested", At: sampleAt("03:00:01", "", ""), Offset: text.Data("1 h 12 min"), Actor: text.Data("Olga Owner"), Payload: `{"reason": "` + sampleLong + `"}`},
}

var sampleSpells = []Spell{
	{From: sampleAt("02:00:00", "", ""), To: sampleAt("02:10:00", "", ""), Long: text.Data("10 min")},
	{From: sampleAt("03:00:00", "", ""), Long: text.Data("4 h and counting")},
}

var sampleProof = Proof{Text: text.Data("Verified as Olga Owner with two factors, for one retry of this Run."), Left: "4:12", Secs: "252"}

// sampleStream is how a live page says it stands, state by state.
var sampleStream = []struct{ is, says, does, news string }{
	{"live", "Live", "Stop updating", ""}, {"live", "Live", "Stop updating", "12 new: show"}, {"live", "Live", "Stop updating", "Changed: show"}, {"paused", "Not updating", "Go on updating", ""},
	{"stale", "Stale: last heard of at 03:00:00", "Stop updating", ""}, {"full", "Not live: as many live pages are open as one may have. As of 03:00:00", "Stop updating", ""}, {"ended", "Ended: reload the page", "", ""},
}
