package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	os.RemoveAll(binaries)
	os.Exit(code)
}

// binaries is where the binaries under test are, once one is built.
var binaries string

var (
	mkdirOnce = sync.OnceValue(func() (err error) {
		binaries, err = os.MkdirTemp("", "ql3-e2e-")
		return err
	})
	console = sync.OnceValues(func() (string, error) { return build("console") })
	// shifted is the same console with a wall clock that the variable clockShift moves.
	shifted = sync.OnceValues(func() (string, error) {
		overlay, err := shiftedClock()
		if err != nil {
			return "", err
		}
		return build("console-shifted", "-overlay", overlay)
	})
)

func build(name string, flags ...string) (string, error) {
	if err := mkdirOnce(); err != nil {
		return "", err
	}
	program := filepath.Join(binaries, name)
	args := append([]string{"build", "-buildvcs=false", "-trimpath", "-o", program}, flags...)
	cmd := exec.Command("go", append(args, "./cmd/console")...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return program, nil
}

// clockShift is by how much a shifted console's wall clock is wrong, such as -24h. Only binaries of these tests know it.
const clockShift = "E2E_CLOCK_SHIFT"

// shiftedClock writes an overlay of the standard library in which time.Now is wrong by [clockShift]. A Go program asks
// the kernel for the time without the C library, so libfaketime cannot come between, and a time namespace moves only
// the monotonic clock. This way every line of the console is the real one, it has no seam for tests, and the monotonic
// clock, which a wrong wall clock leaves alone, stays right.
func shiftedClock() (overlay string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	text, err := shiftNow(string(source))
	if err != nil {
		return "", fmt.Errorf("%s: %w", original, err)
	}
	return writeOverlay("shifted", map[string]string{original: text})
}

// writeOverlay makes an overlay for the go command in which the files, by absolute path, hold these texts.
func writeOverlay(name string, files map[string]string) (overlay string, err error) {
	if err := mkdirOnce(); err != nil {
		return "", err
	}
	dir := filepath.Join(binaries, name+".overlay")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, text := range files {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	content, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o644)
}

// shiftNow changes time.Now in the source of package time.
func shiftNow(source string) (string, error) {
	edits := []struct{ old, new string }{
		{"import (\n", "import (\n\t\"syscall\"\n"},
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += shiftSeconds\n"},
	}
	for _, e := range edits {
		if strings.Count(source, e.old) != 1 {
			return "", fmt.Errorf("this Go release words %q differently", e.old)
		}
		source = strings.Replace(source, e.old, e.new, 1)
	}
	return source + fmt.Sprintf(`
var shiftSeconds = func() int64 {
	text, _ := syscall.Getenv(%q)
	shift, _ := ParseDuration(text)
	return int64(shift / Second)
}()
`, clockShift), nil
}
