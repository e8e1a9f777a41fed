package architecture

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/qinglong/console"

// A tree is the repository as these tests look at it.
type tree struct {
	packages []pkg
	lines    []line // of the files that people write
}

// A pkg is one package of ours; its path is below the module, such as internal/pg.
type pkg struct {
	path  string
	name  string
	files []file
}

// A file is one Go file: what it imports, its package comment, and the calls that tests must not make.
type file struct {
	path    string // below the repository
	test    bool
	imports []string // of ours below the module, of others whole
	doc     string
	sleeps  bool
}

type line struct {
	path string
	n    int
	text string
}

// readTree reads the repository this test is in.
func readTree(t *testing.T) tree {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := listPackages(root)
	if err != nil {
		t.Fatalf("list the packages of %s: %v", root, err)
	}
	lines, err := readLines(root)
	if err != nil {
		t.Fatal(err)
	}
	return tree{packages: packages, lines: lines}
}

func listPackages(root string) ([]pkg, error) {
	list := exec.Command("go", "list", "-buildvcs=false", "-json=ImportPath,Name,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	list.Dir = root
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	var packages []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Name                   string
			GoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		read := pkg{path: ours(p.ImportPath), name: p.Name}
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			f, err := readFile(root, read.path+"/"+name)
			if err != nil {
				return nil, err
			}
			read.files = append(read.files, f)
		}
		packages = append(packages, read)
	}
}

// ours shortens an import path of this module.
func ours(importPath string) string { return strings.TrimPrefix(importPath, module+"/") }

func readFile(root, path string) (file, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments)
	if err != nil {
		return file{}, err
	}
	f := file{path: path, test: strings.HasSuffix(path, "_test.go"), doc: parsed.Doc.Text()}
	for _, spec := range parsed.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, fmt.Errorf("%s: import %s: %w", f.path, spec.Path.Value, err)
		}
		f.imports = append(f.imports, ours(path))
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
			x, ok := s.X.(*ast.Ident)
			f.sleeps = f.sleeps || ok && x.Name == "time"
		}
		return true
	})
	return f, nil
}

// readLines reads every file that people write: not what is generated, built, or installed.
func readLines(root string) ([]line, error) {
	var lines []line
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !written(d.Name()):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		short := strings.TrimPrefix(path, root+"/")
		for i, l := range strings.Split(string(text), "\n") {
			lines = append(lines, line{path: short, n: i + 1, text: l})
		}
		return nil
	})
	return lines, err
}

func written(name string) bool {
	kinds := []string{".go", ".templ", ".sql", ".css", ".js", ".sh", ".yaml"}
	return slices.Contains(kinds, filepath.Ext(name)) && !strings.HasSuffix(name, "_templ.go")
}
