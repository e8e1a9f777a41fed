package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/qinglong/console/internal/cron"
)

const mostOccurrences = 10_000

type nextCmd struct {
	Zone       string   `required:"" help:"IANA time zone, such as Europe/Berlin." env:"-"`
	After      string   `help:"RFC 3339 instant to start after. Default: now." env:"-"`
	Count      int      `short:"n" default:"10" help:"How many, 1 to 10000." env:"-"`
	JSON       bool     `name:"json" help:"One JSON document with local times and daylight-saving marks." env:"-"`
	Expression []string `arg:"" name:"expr" help:"Cron expression of five or six fields, after --."`
}

// Run prints one RFC 3339 UTC instant a line.
func (c nextCmd) Run(e env) error {
	after, err := c.after()
	if err != nil {
		return err
	}
	if c.Count < 1 || c.Count > mostOccurrences {
		return usage("-n is %d, want 1 to %d", c.Count, mostOccurrences)
	}
	schedule, err := cron.Parse(strings.Join(c.Expression, " "), c.Zone)
	if wrong, ok := errors.AsType[*cron.Error](err); ok && wrong.Field == "timezone" {
		return usage("--zone: %s", wrong.Reason)
	}
	if err != nil {
		return usageError{err}
	}
	occurrences := schedule.Occurrences(after, c.Count)
	if c.JSON {
		return c.printJSON(e, schedule, occurrences)
	}
	for _, o := range occurrences {
		if _, err := fmt.Fprintln(e.stdout, o.At.UTC().Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return nil
}

func (c nextCmd) after() (time.Time, error) {
	if c.After == "" {
		return time.Now(), nil
	}
	t, err := time.Parse(time.RFC3339, c.After)
	if err != nil {
		return time.Time{}, usage("--after %q is no RFC 3339 instant; write one such as 2027-03-14T00:00:00Z", c.After)
	}
	return t, nil
}

// nextOccurrence is one instant in the JSON output. Mark is "", or why daylight saving moved or repeats it.
type nextOccurrence struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Mark  string    `json:"mark,omitempty"`
}

func (c nextCmd) printJSON(e env, s cron.Schedule, occurrences []cron.Occurrence) error {
	list := make([]nextOccurrence, 0, len(occurrences))
	for _, o := range occurrences {
		list = append(list, nextOccurrence{At: o.At.UTC(), Local: o.At.In(s.Location()).Format(time.RFC3339), Mark: o.Mark})
	}
	return writeJSON(e.stdout, struct {
		Expression string           `json:"expression"`
		Zone       string           `json:"zone"`
		Words      string           `json:"words"`
		Next       []nextOccurrence `json:"next"`
	}{s.Canonical(), s.Zone(), s.Words().String(), list})
}
