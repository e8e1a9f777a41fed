package pg_test

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/pg"
)

func TestCursorRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := pg.Cursor{CreatedAtMS: rapid.Int64Min(0).Draw(t, "ms"), ID: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))}
		if got, err := pg.ParseCursor(c.String()); err != nil || got != c {
			t.Errorf("ParseCursor(%q) = %v, %v, want %v", c, got, err, c)
		}
	})
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"", "_", "1_", "1764439082000_0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e", "-1_0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e",
		"01_{00000000-0000-7000-8000-00000000000a}", "01_0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e", "1_{0199f3c2-5d0e-7c11-9a42-0b8f2c6e7a1e}", "1_0199F3C2-5d0e-7c11-9a42-0b8f2c6e7a1e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := pg.ParseCursor(s)
		if err != nil && c != (pg.Cursor{}) {
			t.Errorf("ParseCursor(%q) = %v, %v", s, c, err)
		}
		if err == nil && (c.String() != s || c.CreatedAtMS < 0) {
			t.Errorf("ParseCursor(%q) = %v, which is spelled %q", s, c, c)
		}
	})
}
