package messages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/text"
)

const root = "../.."

// said are the messages that the program says, each with a place where it does.
func said(t *testing.T) map[string]string {
	t.Helper()
	messages := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		return saidIn(t, path, messages)
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func saidIn(t *testing.T, path string, messages map[string]string) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		for _, i := range places(call.Fun) {
			where := files.Position(call.Pos()).String()
			message, ok := literal(call.Args[i])
			if !ok && !strings.HasSuffix(path, "templates/say.go") {
				t.Errorf("%s: the message is no literal, so nobody can know whether it is translated", where)
			}
			if ok {
				messages[message] = where
			}
		}
		return true
	})
	return nil
}

// places are the arguments of a call to fun that are messages.
func places(fun ast.Expr) []int {
	switch f := fun.(type) {
	case *ast.Ident:
		if f.Name == "say" {
			return []int{1} // after the context, in a template
		}
	case *ast.SelectorExpr:
		switch pkg, ok := f.X.(*ast.Ident); {
		case !ok || pkg.Name != "text":
		case f.Sel.Name == "Of":
			return []int{0}
		case f.Sel.Name == "Count":
			return []int{1, 2}
		}
	}
	return nil
}

func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, okX := literal(e.X)
		y, okY := literal(e.Y)
		return x + y, okX && okY && e.Op == token.ADD
	}
	return "", false
}

func TestEveryMessageIsInEveryCatalogue(t *testing.T) {
	messages := said(t)
	if len(messages) < 100 {
		t.Fatalf("found %d messages, so the search is broken", len(messages))
	}
	for _, l := range All()[1:] {
		for message, where := range messages {
			if _, ok := l.catalogue[message]; !ok {
				t.Errorf("%s lacks %q, said at %s", l.Tag, message, where)
			}
		}
		for message := range l.catalogue {
			if _, ok := messages[message]; !ok {
				t.Errorf("%s has %q, which nobody says", l.Tag, message)
			}
		}
	}
}

var verb = regexp.MustCompile(`%(\[(\d+)\])?(.)`)

// verbs are the numbers of the arguments that message shows, in order; a verb other than %s is -1.
func verbs(message string) []int {
	var list []int
	n := 0
	for _, m := range verb.FindAllStringSubmatch(message, -1) {
		switch {
		case m[3] == "%":
			continue
		case m[3] != "s":
			n = -1
		case m[2] != "":
			n, _ = strconv.Atoi(m[2])
		default:
			n++
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

func TestTranslationsShowTheSame(t *testing.T) {
	for message, where := range said(t) {
		if slices.Contains(verbs(message), -1) {
			t.Errorf("%q, said at %s, has a verb that is not %%s", message, where)
		}
	}
	for _, l := range All() {
		for message, translated := range l.catalogue {
			if !slices.Equal(verbs(message), verbs(translated)) || strings.TrimSpace(translated) == "" && message != " " {
				t.Errorf("%s says %q for %q: not the same places", l.Tag, translated, message)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	tests := []struct{ name, tag, accept, want string }{
		{"nothing is asked for", "", "", "en"},
		{"the browser asks", "", "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"},
		{"any Chinese", "", "zh", "zh-CN"},
		{"weights count", "", "en;q=0.2, zh-Hans;q=0.7", "zh-CN"},
		{"one that is not spoken here", "", "fr-FR,de;q=0.9", "en"},
		{"the reader's choice comes first", "en", "zh-CN", "en"},
		{"a choice that there is not", "tlh", "zh-CN", "zh-CN"},
		{"nonsense", "", ";;,=\x00", "en"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Choose(tt.tag, tt.accept).Tag; got != tt.want {
				t.Errorf("Choose(%q, %q) = %s, want %s", tt.tag, tt.accept, got, tt.want)
			}
		})
	}
}

func TestFrom(t *testing.T) {
	stopped := text.Of("now")
	if got := From(t.Context()).Say(stopped); got != "now" {
		t.Errorf("a context without a language says %q", got)
	}
	if got := From(In(t.Context(), Choose("zh-CN", ""))).Say(stopped); got != chinese["now"] || got == "" {
		t.Errorf("in Chinese it says %q", got)
	}
}
