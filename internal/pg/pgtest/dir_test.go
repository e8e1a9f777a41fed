package pgtest

import (
	"os"
	"path/filepath"
	"testing"
)

// What a test that was killed has left is removed; what a test uses stays.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	used, left, begun := filepath.Join(parent, dirPrefix+"used"), filepath.Join(parent, dirPrefix+"left"), filepath.Join(parent, dirPrefix+"begun")
	for _, dir := range []string{used, left, begun} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	held, err := takeDir(used)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	killed, err := takeDir(left)
	if err != nil {
		t.Fatal(err)
	}
	killed.Close()
	sweep(parent)
	for dir, want := range map[string]bool{used: true, left: false, begun: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("after sweep() %s is there: %t, want %t", filepath.Base(dir), err == nil, want)
		}
	}
}
