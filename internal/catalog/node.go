package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDepth is deeper than any field of a manifest lies.
const maxDepth = 16

// A reader turns YAML nodes into values and collects what is wrong with them.
// It reads nodes, not structs, so that a mistake knows its line and so that
// nothing is converted by YAML's own rules (yes, 1e3, 0o10) unasked.
type reader struct {
	file     string
	mistakes Mistakes
}

// An item is one element of a list.
type item struct {
	node *yaml.Node
	path string
}

func (it item) at() Position { return Position{Line: it.node.Line, Field: it.path} }

// An entry is one key of a mapping, with its value.
type entry struct {
	key   string
	node  *yaml.Node // of the key
	value *yaml.Node
	path  string
}

func (e entry) isText() bool {
	return e.value != nil && e.value.Kind == yaml.ScalarNode && e.value.Tag == "!!str" && plainText(e.value.Value) == nil
}

func (r *reader) mistake(n *yaml.Node, path, reason string) {
	r.mistakes = append(r.mistakes, Mistake{File: r.file, Line: n.Line, Field: path, Reason: reason})
}

func (r *reader) check(n *yaml.Node, path string, err error) {
	if err != nil {
		r.mistake(n, path, err.Error())
	}
}

// once reports an id that an earlier element of the same list already has.
func (r *reader) once(seen map[string]int, it item, id string) {
	if id == "" {
		return
	}
	if first, found := seen[id]; found {
		r.mistake(it.node, it.path, fmt.Sprintf("%s is already on line %d", strconv.Quote(id), first))
		return
	}
	seen[id] = it.node.Line
}

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

// entries returns the keys of a mapping in order, without those reported as
// duplicates or as no keys at all.
func (r *reader) entries(n *yaml.Node, path string) []entry {
	if n.Kind != yaml.MappingNode {
		r.wrongKind(n, path, "a mapping (key: value)")
		return nil
	}
	var entries []entry
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode || key.Tag == "!!merge" {
			continue
		}
		if key.Kind != yaml.ScalarNode {
			r.mistake(key, path, "has a key that is not plain text")
			continue
		}
		e := entry{key: key.Value, node: key, value: value, path: join(path, key.Value)}
		if line, found := first[e.key]; found {
			r.mistake(key, e.path, fmt.Sprintf("is given twice, first on line %d", line))
			continue
		}
		first[e.key] = key.Line
		entries = append(entries, e)
	}
	return entries
}

// join appends a key to a field path. A key that might be a misplaced secret,
// or would garble a terminal, is not repeated.
func join(path, key string) string {
	if len(key) > 64 || !plainKey.MatchString(key) || secretValue(key) != nil {
		key = "(unprintable)"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// wrongKind reports a node that is not what was wanted. Aliases have been
// reported already.
func (r *reader) wrongKind(n *yaml.Node, path, want string) {
	switch {
	case n.Kind == yaml.AliasNode:
	case isNull(n):
		r.mistake(n, path, "has no value: give it one or leave the line out")
	default:
		r.mistake(n, path, "must be "+want)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// literal returns a scalar as it is written, whatever YAML takes it for:
// arguments and environment variables know no type but text, so 010 stays 010.
func (r *reader) literal(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		return n.Value, true
	}
	if isNull(n) {
		r.mistake(n, path, `has no value: write "" for an empty one`)
		return "", false
	}
	r.wrongKind(n, path, "text")
	return "", false
}

// text returns a scalar that is text and keeps rule, or "" after a mistake.
func (r *reader) text(n *yaml.Node, path string, rule func(string) error) string {
	if n.Kind != yaml.ScalarNode || isNull(n) {
		r.wrongKind(n, path, "text")
		return ""
	}
	if n.Tag != "!!str" {
		r.mistake(n, path, "must be text: put it in quotes")
		return ""
	}
	if err := rule(n.Value); err != nil {
		r.mistake(n, path, err.Error())
		return ""
	}
	return n.Value
}

// An object is a mapping with known fields.
type object struct {
	r      *reader
	node   *yaml.Node // nil if it is no mapping, which has been reported
	path   string
	fields map[string]entry
}

// object reads n as a mapping that may have the known fields and no others.
func (r *reader) object(n *yaml.Node, path string, known ...string) object {
	o := object{r: r, path: path, fields: map[string]entry{}}
	if n.Kind == yaml.MappingNode {
		o.node = n
	}
	for _, e := range r.entries(n, path) {
		if !slices.Contains(known, e.key) {
			r.mistake(e.node, e.path, "is no field here; the fields are "+strings.Join(known, ", "))
			continue
		}
		o.fields[e.key] = e
	}
	return o
}

func (o object) at(field string) string { return join(o.path, field) }

// mistake reports one at the field's value, or at the object if it has no such field.
func (o object) mistake(field, reason string) {
	n := o.node
	if e, found := o.fields[field]; found {
		n = e.value
	}
	o.r.mistake(n, o.at(field), reason)
}

func (o object) required(field string, rule func(string) error) string {
	e, found := o.fields[field]
	if !found {
		if o.node != nil {
			o.mistake(field, "is required")
		}
		return ""
	}
	return o.r.text(e.value, e.path, rule)
}

func (o object) optional(field, fallback string, rule func(string) error) string {
	if _, found := o.fields[field]; !found {
		return fallback
	}
	return o.required(field, rule)
}

// choice reads one of a few words. The words yes and no, which older YAML takes
// for booleans, are words here.
func (o object) choice(field, fallback string, words ...string) string {
	return o.optional(field, fallback, func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		return fmt.Errorf("must be %s", alternatives(words))
	})
}

func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (o object) flag(field string, fallback bool) bool {
	e, found := o.fields[field]
	if !found {
		return fallback
	}
	n := e.value
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		return strings.EqualFold(n.Value, "true")
	}
	o.r.wrongKind(n, e.path, "true or false, without quotes")
	return fallback
}

func (o object) timeout(field string, fallback time.Duration) time.Duration {
	e, found := o.fields[field]
	if !found {
		return fallback
	}
	if e.value.Tag == "!!int" || e.value.Tag == "!!float" {
		o.mistake(field, "needs a unit, such as 90s, 30m or 2h")
		return fallback
	}
	text := o.r.text(e.value, e.path, validTimeout)
	timeout, err := time.ParseDuration(text)
	if err != nil {
		return fallback // reported by validTimeout
	}
	return timeout
}

// list returns the elements of an optional list.
func (o object) list(field string) []item {
	e, found := o.fields[field]
	if !found {
		return nil
	}
	if e.value.Kind != yaml.SequenceNode {
		o.r.wrongKind(e.value, e.path, "a list")
		return nil
	}
	items := make([]item, len(e.value.Content))
	for i, n := range e.value.Content {
		items[i] = item{n, fmt.Sprintf("%s[%d]", e.path, i)}
	}
	return items
}
