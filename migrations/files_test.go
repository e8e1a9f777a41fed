package migrations_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/qinglong/console/migrations"
)

var fileForm = regexp.MustCompile(`^(\d{5})_[a-z][a-z0-9_]*\.sql$`)

// firstFloor is the first file that says which consoles its schema takes.
const firstFloor = 9

var floorRow = regexp.MustCompile(`(?m)^INSERT INTO ql3\.schema_floors \(version, floor\) VALUES \((\d+), (\d+)\);$`)

// badFiles says what is wrong with the migrations in files: a number twice or left out, no Up, no Down, or nothing in it,
// no floor, another's, or one that is lower than before.
func badFiles(files fs.FS) (wrong []string) {
	names, _ := fs.Glob(files, "*")
	floor := 0
	for i, name := range names {
		m := fileForm.FindStringSubmatch(name)
		if m == nil {
			wrong = append(wrong, name+" is not called 00000_what.sql")
			continue
		}
		if n, _ := strconv.Atoi(m[1]); n != i+1 {
			wrong = append(wrong, fmt.Sprintf("%s has number %d, want %d", name, n, i+1))
		}
		text, _ := fs.ReadFile(files, name)
		_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
		up, down, _ := strings.Cut(up, "-- +goose Down\n")
		for part, sql := range map[string]string{"Up": up, "Down": down} {
			if !strings.Contains(sql, ";") {
				wrong = append(wrong, name+" has no "+part)
			}
		}
		if i+1 < firstFloor {
			continue
		}
		row := floorRow.FindStringSubmatch(up)
		if row == nil || row[1] != strconv.Itoa(i+1) {
			wrong = append(wrong, name+" does not say from which schema on consoles work on its own")
			continue
		}
		last := floor
		if floor, _ = strconv.Atoi(row[2]); floor < last {
			wrong = append(wrong, fmt.Sprintf("%s lowers the floor from %d to %d", name, last, floor))
		}
		if !strings.Contains(down, "schema_floors") {
			wrong = append(wrong, name+" leaves its floor behind when it is undone")
		}
	}
	slices.SortFunc(wrong, cmp.Compare)
	return wrong
}

func TestFilesAreNumberedPairs(t *testing.T) {
	if wrong := badFiles(migrations.Files()); wrong != nil {
		t.Error(strings.Join(wrong, "\n"))
	}
}

func TestBadFilesAreFound(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	good := file("-- +goose Up\nCREATE TABLE t ();\n-- +goose Down\nDROP TABLE t;\n")
	// nine files, and a tenth that says what it is told to
	ten := func(up, down string) fstest.MapFS {
		m := fstest.MapFS{"00009_i.sql": file("-- +goose Up\nINSERT INTO ql3.schema_floors (version, floor) VALUES (9, 9);\n-- +goose Down\nDROP TABLE schema_floors;\n"),
			"00010_j.sql": file("-- +goose Up\nSELECT 1;\n" + up + "\n-- +goose Down\n" + down + "\n")}
		for i := range 8 {
			m[fmt.Sprintf("%05d_%c.sql", i+1, 'a'+i)] = good
		}
		return m
	}
	const undo = "DELETE FROM ql3.schema_floors WHERE version = 10;"
	tests := []struct {
		name  string
		files fstest.MapFS
		want  []string
	}{
		{"a floor", ten("INSERT INTO ql3.schema_floors (version, floor) VALUES (10, 9);", undo), nil},
		{"a floor that rises", ten("INSERT INTO ql3.schema_floors (version, floor) VALUES (10, 10);", undo), nil},
		{"no floor", ten("", undo), []string{"00010_j.sql does not say from which schema on consoles work on its own"}},
		{"another's floor", ten("INSERT INTO ql3.schema_floors (version, floor) VALUES (11, 9);", undo), []string{"00010_j.sql does not say from which schema on consoles work on its own"}},
		{"a floor that falls", ten("INSERT INTO ql3.schema_floors (version, floor) VALUES (10, 8);", undo), []string{"00010_j.sql lowers the floor from 9 to 8"}},
		{"a floor that stays", ten("INSERT INTO ql3.schema_floors (version, floor) VALUES (10, 9);", "SELECT 1;"), []string{"00010_j.sql leaves its floor behind when it is undone"}},
		{"good", fstest.MapFS{"00001_a.sql": good, "00002_b.sql": good}, nil},
		{"a number twice", fstest.MapFS{"00001_a.sql": good, "00001_b.sql": good}, []string{"00001_b.sql has number 1, want 2"}},
		{"a number left out", fstest.MapFS{"00001_a.sql": good, "00003_b.sql": good}, []string{"00003_b.sql has number 3, want 2"}},
		{"a name that sorts elsewhere", fstest.MapFS{"0001_a.sql": good}, []string{"0001_a.sql is not called 00000_what.sql"}},
		{"no Down", fstest.MapFS{"00001_a.sql": file("-- +goose Up\nCREATE TABLE t ();\n")}, []string{"00001_a.sql has no Down"}},
		{"an empty Down", fstest.MapFS{"00001_a.sql": file("-- +goose Up\nSELECT 1;\n-- +goose Down\n")}, []string{"00001_a.sql has no Down"}},
		{"no Up", fstest.MapFS{"00001_a.sql": file("-- +goose Down\nSELECT 1;\n")}, []string{"00001_a.sql has no Down", "00001_a.sql has no Up"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := gocmp.Diff(tt.want, badFiles(tt.files)); diff != "" {
				t.Errorf("badFiles (-want +got)\n%s", diff)
			}
		})
	}
}

func TestLatestIsTheHighestNumber(t *testing.T) {
	names, err := fs.Glob(migrations.Files(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var highest int64
	for _, name := range names {
		n, err := strconv.ParseInt(name[:5], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		highest = max(highest, n)
	}
	if got := migrations.Latest(); got != highest {
		t.Errorf("Latest() = %d, want %d", got, highest)
	}
}
