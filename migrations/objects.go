package migrations

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed objects.txt
var objectsFile string

// Objects lists what the newest schema holds, in the form of [pg.Schema]: "table", "table.column", "function(types)",
// "sequence name". It panics on a line it cannot read: the file is part of this program.
func Objects() []string {
	var list []string
	for line := range strings.Lines(objectsFile) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch kind {
		case "function":
			list = append(list, rest)
		case "sequence":
			list = append(list, "sequence "+rest)
		case "table":
			list = append(list, tableAndColumns(rest)...)
		default:
			panic(fmt.Sprintf("migrations: objects.txt: %q", line))
		}
	}
	return list
}

// tableAndColumns reads "table(column, column)".
func tableAndColumns(text string) []string {
	m := columnsOf.FindStringSubmatch(text)
	if m == nil {
		panic(fmt.Sprintf("migrations: objects.txt: %q", text))
	}
	list := []string{m[1]}
	for column := range strings.SplitSeq(m[2], ",") {
		list = append(list, m[1]+"."+strings.TrimSpace(column))
	}
	return list
}
