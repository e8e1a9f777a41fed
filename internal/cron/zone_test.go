package cron

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEveryZoneLoads(t *testing.T) {
	names := zoneNames()
	if len(names) < 500 {
		t.Fatalf("%d zones, want the whole database", len(names))
	}
	for _, name := range names {
		loc, err := loadZone(name)
		if err != nil || loc.String() != name {
			t.Errorf("loadZone(%q) = %v, %v, want %[1]q", name, loc, err)
		}
	}
}

// TestZoneDataIsTheToolchains fails when Go brings a newer database; `go
// generate ./internal/cron` takes it over.
func TestZoneDataIsTheToolchains(t *testing.T) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	zip, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Skipf("this Go installation has no zone database: %v", err)
	}
	stale := 0
	for _, name := range zoneNames() {
		data, _ := zoneLine(name)
		if raw, err := decodeZone(data); err != nil || !bytes.Contains(zip, raw) {
			stale++
		}
	}
	if stale > 0 {
		t.Errorf("%d zones differ from the toolchain's, want 0: run go generate ./internal/cron", stale)
	}
}

// TestHostDoesNotMatter runs itself on a host whose zone files say that Berlin
// keeps UTC.
func TestHostDoesNotMatter(t *testing.T) {
	const onThatHost = "CRON_TEST_ON_HOST"
	if os.Getenv(onThatHost) != "" {
		got := walk(mustParse(t, "0 12 * * *", "Europe/Berlin"), instant(t, "2027-01-01T00:00:00Z"), 1)
		if diff := cmp.Diff([]string{"2027-01-01T11:00:00Z"}, got); diff != "" {
			t.Errorf("Next(12:00 in Berlin) (-want +got):\n%s", diff)
		}
		return
	}
	dir := t.TempDir()
	data, _ := zoneLine("Etc/UTC")
	file, err := decodeZone(data)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "Europe"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Europe", "Berlin"), file, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The time package reads ZONEINFO once in a process, hence a new one.
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostDoesNotMatter$")
	cmd.Env = append(os.Environ(), "ZONEINFO="+dir, onThatHost+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("on a host with other zone files: %v\n%s", err, out)
	}
}

// TestChangesAreFarApart holds the zone data to what reach relies on.
func TestChangesAreFarApart(t *testing.T) {
	for _, name := range zoneNames() {
		loc, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		changed := earliest
		for _, pair := range spanChanges(loc, 1800, 2120) {
			before, after := pair[0], pair[1]
			if after.start-changed <= reach {
				t.Errorf("%s: offset changes at %d and %d, want more than %d s between", name, changed, after.start, reach)
			}
			if change := after.offset - before.offset; max(change, -change) > secondsPerDay || max(after.offset, -after.offset) > 16*3600 {
				t.Errorf("%s: %+v after %+v, want changes of a day and offsets of 16 hours at most", name, after, before)
			}
			changed = after.start
		}
	}
}

// TestSpansChangeWhenOffsetsDo compares spans with offsets, asked every 3 days.
func TestSpansChangeWhenOffsetsDo(t *testing.T) {
	t.Parallel()
	for _, name := range zoneNames() {
		if data, _ := zoneLine(name); data == "" || data[0] == '=' {
			continue
		}
		loc, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []time.Time
		for _, pair := range spanChanges(loc, 1960, 2045) {
			got = append(got, time.Unix(pair[1].start, 0).UTC())
		}
		if diff := cmp.Diff(changes(loc, 1960, 2045), got); diff != "" {
			t.Errorf("spanAt changes offset in %s (-want +got):\n%s", name, diff)
		}
	}
}

// spanChanges returns the neighbouring spans with different offsets.
func spanChanges(loc *time.Location, fromYear, toYear int) [][2]span {
	var list [][2]span
	from, to := dayNumber(fromYear, 1, 1)*secondsPerDay, dayNumber(toYear, 1, 1)*secondsPerDay
	for before := spanAt(loc, from); before.end < to; {
		after := spanAt(loc, before.end)
		if after.offset != before.offset {
			list = append(list, [2]span{before, after})
		}
		before = after
	}
	return list
}
