package catalog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

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
		r.mistake(it.node, it.path, fmt.Sprintf("%q is already on line %d", id, first))
		return
	}
	seen[id] = it.node.Line
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
	e, found := o.fields[field]
	switch {
	case !found:
		return fallback
	case e.value.Kind == yaml.ScalarNode && slices.Contains(words, e.value.Value):
		return e.value.Value
	}
	o.r.wrongKind(e.value, e.path, alternatives(words))
	return fallback
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
