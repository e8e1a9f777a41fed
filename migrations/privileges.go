package migrations

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed privileges.txt
var privileges string

// grantLine is "role object privilege…"; only a privilege is a bare word in capitals.
var grantLine = regexp.MustCompile(`^(ql3_\w+)\s+(.+?)((?:\s+[A-Z]+)+)$`)

var columnsOf = regexp.MustCompile(`^(\w+)\((.+)\)$`)

// Privileges returns what role may do in the schema, one "PRIVILEGE object" each, in the form that
// pg.ReadPrivileges returns; a column is "PRIVILEGE table.column". It panics on a line it cannot read: the file is
// part of this program.
func Privileges(role string) []string {
	var list []string
	for line := range strings.Lines(privileges) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := grantLine.FindStringSubmatch(line)
		if m == nil {
			panic(fmt.Sprintf("migrations: privileges.txt: %q", line))
		}
		if m[1] != role {
			continue
		}
		for _, object := range objects(m[2], m[3]) {
			for _, privilege := range strings.Fields(m[3]) {
				list = append(list, privilege+" "+object)
			}
		}
	}
	return list
}

// objects takes a table with columns apart; a function keeps its arguments.
func objects(object, granted string) []string {
	columns := columnsOf.FindStringSubmatch(object)
	if columns == nil || strings.TrimSpace(granted) == "EXECUTE" {
		return []string{object}
	}
	var list []string
	for column := range strings.SplitSeq(columns[2], ",") {
		list = append(list, columns[1]+"."+strings.TrimSpace(column))
	}
	return list
}
