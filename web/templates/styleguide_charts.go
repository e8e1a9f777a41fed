package templates

import "github.com/qinglong/console/internal/text"

var sampleTicks = []Tick{{X: "0%", Anchor: "start", Text: text.Data("02:00")}, {X: "50%", Anchor: "middle", Text: text.Data("02:30")}, {X: "100%", Anchor: "end", Text: text.Data("03:00")}}

var sampleCharts = []Chart{
	{Title: text.Data("Outcomes"), Summary: text.Data("120 Runs, 7 failed"), Top: text.Data("40"), Ticks: sampleTicks,
		Columns: []Column{
			{X: "0%", Width: "9%", Title: text.Data("02:00: 10"), Blocks: []Block{{Y: "50%", Height: "50%", Tone: "ok"}, {Y: "30%", Height: "20%", Tone: "bad"}}},
			{X: "20%", Width: "9%", Title: text.Data("02:12: 40"), Blocks: []Block{{Y: "40%", Height: "60%", Tone: "ok"}, {Y: "20%", Height: "20%", Tone: "warn"}, {Y: "0%", Height: "20%", Tone: "idle"}}},
			{X: "90%", Width: "9%", Title: text.Data("02:54: 8"), Blocks: []Block{{Y: "80%", Height: "20%", Tone: "run"}}}},
		Legend: []Status{sampleOK, sampleFailed, sampleStatus("lost", "diamond", "warn"), sampleStatus("queued", "ring", "idle"), sampleStatus("running", "arrow", "run")},
		Table:  sampleTable},
	{Title: text.Data("Lateness"), Summary: text.Data("median 8 ms, 99th percentile 41 ms"), Top: text.Data("50 ms"), Ticks: sampleTicks,
		Lines: []Line{{Path: "M0 100L0 60L30 70L60 20L100 80L100 100Z", Tone: "run", Area: true}, {Path: "M0 60L30 70L60 20L100 80", Tone: "run"}}},
	{Title: text.Data("Nothing yet"), Summary: text.Data("no Occurrence"), Ticks: sampleTicks},
}

var sampleTable = Table{Head: []text.Text{text.Data("At"), text.Data("Runs")}, Rows: []TableRow{
	{At: sampleAt("02:00:00", "", ""), Cells: []text.Text{text.Data("10")}}, {At: sampleAt("02:12:00", "", ""), URL: "#charts", Cells: []text.Text{text.Data("10,000+")}}}}

var sampleLane = Lane{
	Summary: text.Data("5 instants: 2 admitted, 1 skipped, 1 pending, 1 with nobody there"),
	Bands: []Band{{X: "20%", Width: "20%", Kind: "alone", Label: text.Data("no replica"), LabelX: "20%", Title: text.Data("No replica was running")}, {X: "45%", Width: "10%", Kind: "paused", Title: text.Data("paused")},
		{X: "60%", Width: "10%", Kind: "archived", Title: text.Data("archived")}, {X: "75%", Width: "10%", Kind: "unknown", Title: text.Data("not known")}},
	Marks: []LaneMark{{X: "10%", Status: sampleOK, Title: text.Data("02:06 admitted"), URL: "#lane-sample"}, {X: "30%", Status: sampleFailed, Title: text.Data("02:18 nobody was there")},
		{X: "50%", Status: sampleStatus("skipped", "square", "warn"), Title: text.Data("02:30 skipped")}, {X: "95%", Status: sampleStatus("pending", "ring", "idle"), Title: text.Data("02:57 pending")}},
	Ticks:  sampleTicks,
	Legend: []LegendItem{{Status: sampleOK, Count: "2"}, {Status: sampleFailed, Count: "1"}, {Status: sampleStatus("no replica", "", ""), Kind: "alone"}, {Status: sampleStatus("paused", "", ""), Kind: "paused"}},
}

var sampleChips = []Chip{{Status: Status{Word: text.Data("all")}, Count: "10,000+", URL: "#lists", Current: true}, {Status: sampleFailed, Count: "49", URL: "#lists"},
	{Status: sampleStatus("lost", "diamond", "warn"), Count: "0", URL: "#lists", None: true}}

var sampleRuns = []RunRow{
	{ID: sampleID("01a22970"), Status: sampleStatus("running", "arrow", "run"), Task: Link{Text: text.Data("Search index"), URL: "#lists"}, Project: "platform",
		Origin: Link{Text: text.Data("every-minute"), URL: "#lists"}, Created: sampleAt("03:00:00", "16 s ago", "16"), Lateness: text.Data("10 ms"), Duration: text.Data("16 s so far"), SoFar: "16"},
	{ID: sampleID("01a22971"), Status: sampleFailed, Reason: text.Data("connection to billing refused · exit 3"), Task: Link{Text: text.Data(sampleLong), URL: "#lists"}, Project: sampleLong,
		Origin: Link{Text: text.Data("retry of 01a2295e…4001"), URL: "#lists"}, Created: sampleAt("02:00:00", "1 h ago", "3600"), Duration: text.Data("1 h 12 min")},
}

var sampleClaims = []Claim{{Key: "1", Schedule: Link{Text: text.Data("nightly-report"), URL: "#lists"}, Project: "billing", Owner: "console-2/4711/9c1f", Token: "0a1b2c3d…", Version: "12",
	Acquired: sampleAt("03:00:00", "10 s ago", "10"), Drain: Drain{Share: "66%", Left: "20", Of: "30", Ago: "-20", Words: text.Data("20 s left")}}}

var sampleReplicas = []Replica{
	{Name: "console-1/4710/6e37", Status: sampleStatus("running", "disc", "ok"), Version: "1.4.0", Ticked: sampleAt("03:00:00", "now", "0"), Skew: text.Data("+2.4 s"), Off: sampleStatus("off", "diamond", "warn"), Claims: text.Data("1 claim")},
	{Name: "console-2/4711/9c1f", Status: sampleStatus("gone", "square", "idle"), Version: "1.4.0", Ticked: sampleAt("01:00:00", "2 h ago", "7200"), Skew: text.Data("−1 ms")},
}
