package templates

import "github.com/qinglong/console/internal/text"

// The samples of accounts, audits, batches and pauses, each in every state.

var (
	sampleAdmitted = sampleStatus("admitted", "disc", "ok")
	sampleUnsafe   = Author{Unsafe: true, Note: "sends invoices to customers a second time"}
)

var sampleAuthors = []Author{{Note: "sends e-mail"}, sampleUnsafe, {Unsafe: true}}

var sampleHeld = Held{Trigger: Link{Text: text.Data("nightly-report"), URL: "#held-sample"}, By: "Omar Operator", Since: sampleAt("02:00:00", "1 h ago", "3600"),
	Reason: []Word{{Text: "the bank is down, see "}, {Text: "https://wiki.example/7", URL: "https://wiki.example/7"}}}

var sampleAccount = []AccountRow{
	{Anchor: "at-1", Local: []text.Text{text.Data("2026-11-29 Sun 04:00:00 CET")}, First: sampleAt("03:00:00", "", ""), Verdict: sampleAdmitted, Why: text.Data("Became a Run, 8 ms late."),
		Run: sampleID("01a22971"), RunStatus: sampleFailed},
	{Spell: sampleSpells[0]},
	{Anchor: "at-2", Local: []text.Text{text.Data("2026-11-29 Sun 02:30:00 CEST")}, First: sampleAt("01:30:00", "", ""), Verdict: sampleStatus("skipped", "hourglass", "warn"),
		Why: text.Data("It was 6 min late when a replica looked, and too late to run."), Mark: text.Data("this local time comes twice that day")},
	{Local: []text.Text{text.Data("2026-11-29 Sun 01:00:00 –"), text.Data("02:00:00 CET")}, First: sampleAt("00:00:00", "", ""), Last: sampleAt("01:00:00", "", ""), Count: text.Data("61 instants"), Verdict: sampleAdmitted,
		Why: text.Data("Became a Run, 0 ms to 89 ms late: 60 succeeded, 1 failed."), Runs: Link{Text: text.Data("these Runs"), URL: "#account-sample"}, EachOf: text.Data("the newest 2 of them"),
		Each: []Each{{At: sampleAt("01:00:00", "", ""), Anchor: "at-3", Run: Link{URL: "#account-sample"}, Status: sampleFailed}, {At: sampleAt("00:59:00", "", ""), Anchor: "at-4", Run: Link{URL: "#account-sample"}, Status: sampleOK}}},
	{Anchor: "at-5", First: sampleAt("00:30:00", "", ""), Verdict: sampleStatus("archived", "pause", "idle"), Why: text.Data("Nothing is admitted in an archived Project."), Archived: sampleSpells[0]},
	{Anchor: "at-6", Loud: true, First: sampleAt("00:15:00", "", ""), Verdict: sampleStatus("UNACCOUNTED", "triangle", "bad"), Why: text.Data("It should have been decided, but nothing is recorded of this instant.")},
}

var sampleAudit = []AuditRow{
	{At: sampleAt("03:00:00", "1 min ago", "60"), Name: text.Data("Retry"), Action: "run.retry", Outcome: sampleStatus("allowed", "disc", "ok"), Actor: Link{Text: text.Data("Olga Owner"), URL: "#audit-sample"}, From: text.Data("192.0.2.7 by way of 10.0.0.1"),
		Project: "billing", Run: sampleID("01a22971"), Batch: Link{Text: text.Data("a batch"), URL: "#audit-sample"}, Strength: text.Data("verified by a hardware key"), Words: sampleHeld.Reason, Facts: `{"a": "fact"}`},
	{At: sampleAt("02:59:00", "2 min ago", "120"), Name: text.Data("Pause"), Action: "trigger.pause", Outcome: sampleStatus("denied", "triangle", "bad"), Reason: text.Data("Not allowed"), Word: "forbidden",
		Actor: Link{Text: text.Data(sampleLong)}, Project: "billing", Trigger: Link{Text: text.Data("nightly-report"), URL: "#audit-sample"}, Words: []Word{{Text: sampleLong}}},
}

var sampleFailures = []FailureRow{
	{Key: "1", Task: Link{Text: text.Data(sampleLong), URL: "#failures-sample"}, Project: "billing", Total: text.Data("5 failures"), Answered: text.Data("3 of 5 retried"), Answer: Link{Text: text.Data("Retry these…"), URL: "#failures-sample"},
		Newest: FailureOf{ID: sampleID("01a22971"), Status: sampleFailed, Reason: text.Data("connection to billing refused · exit 3"), At: sampleAt("03:00:00", "1 h ago", "3600")}},
	{Key: "2", Task: Link{Text: text.Data("Backup"), URL: "#failures-sample"}, Project: "platform", Total: text.Data("1 failure"), Answered: text.Data("retried"), Retried: sampleID("01a22960"), RetryStatus: sampleOK,
		Newest: FailureOf{ID: sampleID("01a22972"), Status: sampleStatus("timed out", "hourglass", "warn"), At: sampleAt("02:00:00", "2 h ago", "7200")}},
}

var sampleTrouble = Incident{Sentences: []Sentence{{Lead: text.Data("6 failures"), Rest: text.Data("of 2 Tasks."), Tone: "bad"}}, More: text.Data("There are more."),
	Rows: []TroubleRow{{Key: "1", Task: Link{Text: text.Data(sampleLong), URL: "#incident-sample"}, Project: "billing", Total: "5", Retried: text.Data("3"), Counts: []Part{{Status: sampleFailed, Count: "4"}, {Status: sampleStatus("lost", "diamond", "warn"), Count: "1"}},
		First: sampleFailures[1].Newest, Newest: sampleFailures[0].Newest, Retry: Link{Text: text.Data("Retry these…"), URL: "#incident-sample"}}}}

var sampleNotes = []TaskNote{{Task: "Invoice export", Runs: text.Data("3 Runs"), Times: text.Data("executed 3 times"), Note: "sends invoices", Unsafe: true}, {Task: "Backup", Runs: text.Data("1 Run"), Note: "safe"}}

var sampleBatch = []BatchRow{
	{ID: sampleID("01a22971"), Status: sampleFailed, Task: sampleLong, Created: sampleAt("03:00:00", "1 h ago", "3600"), Unsafe: true, Verdict: sampleStatus("passed", "disc", "ok"), Field: "run", Value: "1", Checked: true,
		Retried: text.Data("retried 2 times already"), Later: sampleID("01a22973"), LaterStatus: sampleOK},
	{ID: sampleID("01a22972"), Status: sampleStatus("timed out", "hourglass", "warn"), Task: "Backup", Created: sampleAt("02:00:00", "2 h ago", "7200"), Verdict: sampleStatus("failed", "triangle", "bad"), Why: text.Data("The Task has been disabled.")},
}

var sampleParts = []Part{{X: "0%", Width: "50%", Status: sampleOK, Count: "4"}, {X: "50%", Width: "25%", Status: sampleFailed, Count: "2"}, {X: "75%", Width: "25%", Status: sampleStatus("running", "arrow", "run"), Count: "2"}}

var sampleMade = []MadeRow{
	{Source: sampleID("01a22971"), Task: sampleLong, Frozen: sampleFailed, Made: sampleID("01a22981"), Status: sampleOK, Finished: sampleAt("03:10:00", "50 min ago", "3000"), Duration: text.Data("2 s")},
	{Source: sampleID("01a22972"), Task: "Backup", Frozen: sampleFailed, Made: sampleID("01a22982"), Status: sampleStatus("running", "arrow", "run"), Duration: text.Data("16 s"), SoFar: "16"},
	{Source: sampleID("01a22973"), Task: "Backup", Frozen: sampleFailed, Status: sampleStatus("left out", "ring", "idle")},
}

var sampleHoldings = []Holding{
	{Done: text.Data("You resumed this Trigger from then on."), Pause: Form{Action: "#holding-sample", Button: text.Data("Pause"), AsksReason: true}},
	{Resume: Form{Action: "#holding-sample", Button: text.Data("Resume"), Label: text.Data("Why")}, Now: text.Data("12 are passed over."), Once: text.Data("One Run for all 12.")},
	{Why: text.Data("Pausing takes the role operator."), History: []PastPause{{At: sampleAt("01:00:00", "2 h ago", "7200"), Until: sampleAt("02:00:00", "1 h ago", "3600"), By: "Omar", To: "Olga", Reason: sampleHeld.Reason, How: text.Data("resumed from then on")}}},
}
