package cron

import (
	_ "embed"
	"encoding/base64"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // so that a viewer's zone loads on a host without zone files too
)

// zoneData has one line for each zone, "name base64(TZif)" or "name =other",
// copied from the Go toolchain's own database.
//
// It is our copy because time.LoadLocation prefers the host's files to
// time/tzdata: two replicas on differently patched hosts would then expect one
// Trigger at different instants, and a host's posixrules, localtime and right/
// (with leap seconds) would pass for zones.
//
//go:generate go run ./zonegen -o zones.txt
//go:embed zones.txt
var zoneData string

var zones sync.Map // name → *time.Location

// LoadZone returns the zone of that exact name, by which the same is meant on every host.
func LoadZone(name string) (*time.Location, error) { return loadZone(name) }

// loadZone returns the zone of that exact name. Its errors say what to write.
func loadZone(name string) (*time.Location, error) {
	if name == "UTC" {
		return time.UTC, nil
	}
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	data, ok := zoneLine(name)
	if !ok {
		return nil, refuseZone(name)
	}
	file, err := decodeZone(data)
	if err != nil {
		return nil, unreadable(name, err)
	}
	loc, err := time.LoadLocationFromTZData(name, file)
	if err != nil {
		return nil, unreadable(name, err)
	}
	kept, _ := zones.LoadOrStore(name, loc)
	return kept.(*time.Location), nil
}

func unreadable(name string, err error) *Error {
	return refuse("timezone", "the data of %s cannot be read (%v); write another zone", quote(name), err)
}

// zoneLine returns what follows name on its line.
func zoneLine(name string) (string, bool) {
	if name == "" || strings.ContainsAny(name, " \n") {
		return "", false
	}
	_, rest, ok := strings.Cut(zoneData, "\n"+name+" ")
	if !ok {
		return "", false
	}
	data, _, _ := strings.Cut(rest, "\n")
	return data, true
}

// decodeZone returns the TZif file that stands on a line.
func decodeZone(data string) ([]byte, error) {
	if target, isLink := strings.CutPrefix(data, "="); isLink {
		data, _ = zoneLine(target)
	}
	return base64.StdEncoding.DecodeString(data)
}

// refuseZone explains why name is not a zone and names the nearest that is.
func refuseZone(name string) *Error {
	const field, example = "timezone", `such as "Europe/Berlin", or "UTC"`
	trimmed := strings.Trim(name, " \t\r\n")
	switch {
	case trimmed == "":
		return refuse(field, "it is empty; write an IANA name %s", example)
	case strings.EqualFold(trimmed, "Local") || strings.EqualFold(trimmed, "localtime"):
		return refuse(field, "%s is the zone of whichever host reads it; write an IANA name %s", quote(name), example)
	}
	if near := nearZone(trimmed); near != "" {
		return refuse(field, "%s is not the exact name of a zone; write %q", quote(name), near)
	}
	return refuse(field, "%s is not in the IANA time zone database; write a name %s", quote(name), example)
}

// nearZone returns the zone that differs from name only in case, or in a
// directory of a host's database in front of it.
func nearZone(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "posix/"), "right/")
	for line := range strings.Lines(zoneData) {
		zone, _, ok := strings.Cut(line, " ")
		if ok && zone != "#" && strings.EqualFold(zone, name) {
			return zone
		}
	}
	return ""
}
