package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDepth is deeper than any field of a manifest lies.
const maxDepth = 16

// parse returns the root of the only document in data, or nil after a mistake
// that makes reading on pointless.
func (r *reader) parse(data []byte) *yaml.Node {
	fail := func(line int, reason string) *yaml.Node {
		r.mistakes = append(r.mistakes, Mistake{File: r.file, Line: line, Reason: reason})
		return nil
	}
	if len(data) > MaxManifestBytes {
		return fail(1, fmt.Sprintf("is larger than %d MiB; split it, a manifest need not hold everything", MaxManifestBytes>>20))
	}
	if at := invalidUTF8(data); at >= 0 {
		return fail(1+bytes.Count(data[:at], []byte("\n")), "is not UTF-8 text")
	}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return fail(1, "is empty; a manifest begins with projects:")
	}
	if err != nil {
		return fail(explain(data, err))
	}
	var second yaml.Node
	if err := decoder.Decode(&second); err == nil {
		return fail(second.Line, "begins a second document; a manifest is one document")
	} else if !errors.Is(err, io.EOF) {
		return fail(explain(data, err))
	}
	root := document.Content[0]
	if isNull(root) {
		return fail(1, "is empty; a manifest begins with projects:")
	}
	r.refuseExotic(root, "", 0)
	return root
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// refuseExotic reports what YAML allows and a manifest does not: these either
// hide what is published or change it behind the reader's back.
func (r *reader) refuseExotic(n *yaml.Node, path string, depth int) {
	if depth > maxDepth {
		r.mistake(n, path, "is nested too deeply")
		return
	}
	switch {
	case n.Kind == yaml.AliasNode:
		r.mistake(n, path, "is an alias (*name): write the value out; text that begins with * needs quotes")
	case n.Anchor != "":
		r.mistake(n, path, "has an anchor (&name): write the value out where it is needed; text that begins with & needs quotes")
	case n.Tag == "!!merge":
		r.mistake(n, path, "is a merge key (<<): write the fields out")
	case n.Style&yaml.TaggedStyle != 0:
		r.mistake(n, path, "has a tag (!name): write the plain value; text that begins with ! needs quotes")
	}
	for i, child := range n.Content {
		at := path
		switch {
		case n.Kind == yaml.SequenceNode:
			at = fmt.Sprintf("%s[%d]", path, i)
		case i%2 == 1: // a value; its key is the node before
			at = join(path, n.Content[i-1].Value)
		}
		r.refuseExotic(child, at, depth+1)
	}
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// explain turns the YAML parser's error into a line and a reason without any
// text of the file.
func explain(data []byte, err error) (line int, reason string) {
	problem := yamlError.FindStringSubmatch(err.Error())
	if problem == nil {
		return 1, "is not valid YAML"
	}
	if anchor, found := strings.CutPrefix(problem[2], "unknown anchor '"); found {
		name, _, _ := strings.Cut(anchor, "'")
		before, _, _ := bytes.Cut(data, []byte("*"+name))
		return 1 + bytes.Count(before, []byte("\n")), "is an alias (*name): text that begins with * needs quotes"
	}
	line, text := failingLine(data, problem[1], problem[2])
	switch {
	case strings.HasPrefix(strings.TrimLeft(text, " "), "\t"):
		return line, "begins with a tab; YAML is indented with spaces"
	case strings.Contains(problem[2], "expected alphabetic or numeric character"), strings.Contains(problem[2], "cannot start any token"):
		return line, "is not valid YAML: text that begins with one of * & ! % @ ` needs quotes"
	}
	return line, "is not valid YAML: " + problem[2]
}

// maxSearch bounds failingLine, which parses the file some twenty times.
const maxSearch = 512 << 10

// failingLine returns the line at which the parser, which reads forward, first
// meets the problem. The line that it names is often where the enclosing
// mapping begins; it is good enough for a very large file.
func failingLine(data []byte, named, problem string) (line int, text string) {
	if len(data) > maxSearch {
		line, _ = strconv.Atoi(named)
		return max(line, 1), ""
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	n := 1 + sort.Search(len(lines)-1, func(i int) bool {
		return hasProblem(bytes.Join(lines[:i+1], nil), problem)
	})
	return n, string(lines[n-1])
}

func hasProblem(data []byte, problem string) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var ignored yaml.Node
		if err := decoder.Decode(&ignored); err != nil {
			return strings.HasSuffix(err.Error(), problem)
		}
	}
}
