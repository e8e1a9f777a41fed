// Package architecture holds the repository to its own rules: who may import whom, that every package says what it is
// for, and a few habits that no compiler checks.
//
// It has tests and nothing else. The table in this file is the design's: a package that it does not know fails, so
// that a new one is given its place by whoever adds it.
package architecture

// A rule says what one package may import, and why no more.
type rule struct {
	ours  []string // packages of this module, directly
	third []string // other people's modules, directly; nil leaves them free
	why   string
}

// rules follow the layers: what a package may reach is below it, and imports run one way.
var rules = map[string]rule{
	"cmd/console": {why: "it puts the parts together",
		ours: []string{"internal/calendar", "internal/catalog", "internal/cron", "internal/dev/executor", "internal/dev/idp", "internal/dev/postgres",
			"internal/oidc", "internal/pg", "internal/policy", "internal/run", "internal/runmgmt", "internal/scheduler", "internal/text", "migrations", "web", "web/live"}},

	"web": {why: "it words what others decide and contains no SQL",
		ours: []string{"internal/calendar", "internal/catalog", "internal/cron", "internal/oidc", "internal/pg", "internal/policy", "internal/run",
			"internal/runmgmt", "internal/scheduler", "internal/search", "internal/text", "web/live", "web/messages", "web/static", "web/templates"},
		third: []string{"github.com/a-h/templ", "github.com/google/uuid", "github.com/labstack/echo/v4", "github.com/alexedwards/scs/v2", "github.com/klauspost/compress",
			"golang.org/x/sync"}},
	"web/live":      {third: []string{"github.com/google/uuid"}, why: "it says that something may have changed, and never what"},
	"web/messages":  {ours: []string{"internal/text"}, third: []string{"golang.org/x/text"}, why: "a catalogue of words knows nothing else"},
	"web/templates": {ours: []string{"internal/text", "web/messages"}, third: []string{"github.com/a-h/templ", "github.com/cespare/xxhash/v2"}, why: "a template only says what others worded"},
	"web/static":    {third: []string{}, why: "files know nothing"},

	"internal/scheduler": {ours: []string{"internal/catalog", "internal/cron", "internal/pg", "internal/policy", "internal/run", "internal/search", "internal/text"},
		why: "scheduler, runmgmt and oidc do not import one another, and nothing below web imports web"},
	"internal/runmgmt": {ours: []string{"internal/catalog", "internal/pg", "internal/policy", "internal/run", "internal/text"},
		why: "scheduler, runmgmt and oidc do not import one another, and nothing below web imports web"},
	"internal/oidc": {ours: []string{"internal/pg", "internal/policy", "internal/text"},
		why: "scheduler, runmgmt and oidc do not import one another, and nothing below web imports web"},

	"internal/run":     {ours: []string{"internal/pg", "internal/search", "internal/text"}, why: "run, catalog and policy rest on pg alone, and a list finds what a text names"},
	"internal/search":  {ours: []string{"internal/pg"}, why: "what a text names is found by lists of every kind"},
	"internal/catalog": {ours: []string{"internal/cron", "internal/pg"}, why: "run, catalog and policy rest on pg alone, and publishing validates cron"},
	"internal/policy":  {ours: []string{"internal/pg"}, why: "run, catalog and policy rest on pg alone"},

	"internal/calendar": {ours: []string{"internal/cron"}, third: []string{}, why: "what words for a moment mean needs a clock and a zone alone"},
	"internal/cron":     {ours: []string{"internal/text"}, third: []string{"github.com/robfig/cron/v3"}, why: "when something is due is arithmetic and knows no database"},
	"internal/pg": {third: []string{"github.com/google/uuid", "github.com/jackc/pgx/v5", "github.com/jackc/pgerrcode", "github.com/pressly/goose/v3"},
		why: "plumbing knows no table"},
	"internal/text":    {third: []string{}, why: "what is said knows no language but its own"},
	"internal/process": {third: []string{}, why: "a child is a child, whatever it runs"},
	"migrations":       {third: []string{}, why: "the database's shape is data"},

	"internal/dev/postgres": {ours: []string{"internal/process"}, third: []string{"github.com/jackc/pgx/v5"}, why: "a server that also the tests start knows nothing of what runs on it"},
	"internal/dev/executor": {ours: []string{"internal/catalog", "internal/run"}, why: "it stands where a worker will, and a worker has no more"},
	"internal/dev/idp":      {why: "an identity provider is somebody else's program"},

	"internal/pg/pgtest":    {ours: []string{"internal/dev/postgres", "internal/pg", "migrations"}, why: "it gives a test a database"},
	"internal/run/runtest":  {ours: []string{"internal/catalog", "internal/pg", "internal/pg/pgtest", "internal/run", "migrations"}, why: "it puts Runs into a test's database"},
	"internal/bench":        {third: []string{"github.com/jackc/pgx/v5", "golang.org/x/sync"}, why: "it writes what publishing would have written and shares no code with it"},
	"internal/bench/seed":   {ours: []string{"internal/bench"}, third: []string{"github.com/jackc/pgx/v5"}, why: "it only says which database to fill"},
	"internal/cron/zonegen": {third: []string{}, why: "it copies the toolchain's zone data"},
	"internal/mutations":    {third: []string{"golang.org/x/sync"}, why: "it knows the product only as text"},
	"internal/architecture": {why: "it has tests and nothing else"},
	"e2e":                   {why: "it uses the built binary"},
	"e2e/checker":           {third: []string{"github.com/jackc/pgx/v5"}, why: "it shares no code with what it checks"},
}

// devImporters are the only files outside tests that may import what is for `console dev` alone.
var devImporters = []string{"cmd/console/dev.go", "cmd/console/dev_identity.go"}
