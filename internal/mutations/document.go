package main

import (
	"bytes"
	"fmt"
	"strings"
)

const preface = `# What protects, and who notices that it is gone

Made by ` + "`make mutations`" + `, which takes each of these lines away, one at a time, and runs the tests that must notice. Those named here did.
The list itself is in ` + "`internal/mutations`" + `. What the model says of the same lines is in [model.md](model.md).
`

// render is the document.
func render(results []result) []byte {
	var b bytes.Buffer
	b.WriteString(preface)
	section := ""
	for _, r := range results {
		if r.section != section {
			section = r.section
			fmt.Fprintf(&b, "\n## %s\n\n| without | in | which was | noticed by |\n| --- | --- | --- | --- |\n", section)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", cell(r.what), r.file, cell(code(r.from)), cell(r.String()))
	}
	return b.Bytes()
}

// code is on one line, whatever it holds.
func code(s string) string { return "`` " + strings.Join(strings.Fields(s), " ") + " ``" }

func cell(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return strings.ReplaceAll(first, "|", `\|`)
}
