package catalog

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a definition.
const (
	maxName     = 200      // runes
	maxNote     = 500      // runes
	maxArgs     = 256      // the program included
	maxArg      = 4096     // bytes
	maxEnv      = 256      // variables
	maxEnvName  = 128      // bytes
	maxEnvValue = 32 << 10 // bytes
	maxSize     = 1 << 20  // bytes of command and environment together: half of what Linux passes to a program
	maxLabels   = 32       // placement labels
	maxURL      = 2048     // bytes
	maxPath     = 4096     // bytes
	maxTimeout  = 168 * time.Hour
)

// The database's CHECKs hold the same form.
var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// validID keeps ids fit for URLs and for the parts of an idempotency key,
// which are parted by colons.
func validID(id string) error {
	if !idForm.MatchString(id) {
		return errors.New("must be 1 to 63 of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit")
	}
	return nil
}

// A label may say key=value or group/name besides.
var labelForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._=/-]{0,62}$`)

func validLabel(label string) error {
	if !labelForm.MatchString(label) {
		return errors.New("must be 1 to 63 of a-z, 0-9 and . _ = / -, beginning with a letter or digit")
	}
	return nil
}

func validName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case utf8.RuneCountInString(name) > maxName:
		return fmt.Errorf("is longer than %d characters", maxName)
	case strings.TrimSpace(name) != name:
		return errors.New("begins or ends with a blank")
	}
	return plainText(name)
}

func validNote(note string) error {
	if utf8.RuneCountInString(note) > maxNote {
		return fmt.Errorf("is longer than %d characters", maxNote)
	}
	return plainText(strings.ReplaceAll(note, "\n", ""))
}

// plainText refuses what makes a line of text show otherwise than it is.
func plainText(s string) error {
	for _, c := range s {
		if unicode.IsControl(c) || unicode.In(c, unicode.Bidi_Control, invisible) {
			return errors.New("holds a control, invisible or text-direction character")
		}
	}
	return nil
}

// invisible are the zero-width space, the line and paragraph separators and the
// byte order mark. Joiners are not: names in many scripts need them.
var invisible = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x200b, Hi: 0x200b, Stride: 1}, {Lo: 0x2028, Hi: 0x2029, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1},
}}

func validTimeout(text string) error {
	timeout, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("must be a duration such as 90s, 30m or 2h; a day is 24h")
	case timeout < time.Second || timeout > maxTimeout:
		return errors.New("must be from 1s to 168h")
	case timeout%time.Second != 0:
		return errors.New("must be whole seconds")
	}
	return nil
}

func validDirectory(dir string) error {
	switch {
	case !path.IsAbs(dir):
		return errors.New("must be absolute")
	case path.Clean(dir) != dir:
		return errors.New("must be clean: no . or .. parts, no double or trailing slash")
	case len(dir) > maxPath:
		return fmt.Errorf("is longer than %d bytes", maxPath)
	}
	return plainText(dir)
}

// placeholders are what a URL template may hold, replaced when a page shows it.
var placeholders = strings.NewReplacer("{run}", "x", "{attempt}", "x", "{task}", "x", "{project}", "x")

func validURLTemplate(template string) error {
	if len(template) > maxURL {
		return fmt.Errorf("is longer than %d bytes", maxURL)
	}
	filled := placeholders.Replace(template)
	if strings.ContainsAny(filled, "{}") {
		return errors.New("may hold the placeholders {run}, {attempt}, {task} and {project} and no other braces")
	}
	if strings.ContainsAny(filled, " \\\"'<>`") || plainText(filled) != nil {
		return errors.New(`holds a blank or a character that must be percent-encoded`)
	}
	u, err := url.Parse(filled)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("must be an https URL")
	}
	if u.User != nil {
		return errors.New("must not hold a user name or password")
	}
	authority, _, _ := strings.Cut(strings.TrimPrefix(template, "https://"), "/")
	if host, _, _ := strings.Cut(authority, "?"); strings.Contains(host, "{") {
		return errors.New("must not have a placeholder in the host name")
	}
	return secretURL(filled)
}

func validEnvName(name string) error {
	if !envNameForm.MatchString(name) || len(name) > maxEnvName {
		return fmt.Errorf("must be a variable name: letters, digits and underscore, not beginning with a digit, at most %d long", maxEnvName)
	}
	return nil
}

var envNameForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// validEnvValue checks a literal or reference without ever repeating it.
func validEnvValue(name, value string) error {
	switch {
	case len(value) > maxEnvValue:
		return fmt.Errorf("is longer than %d bytes", maxEnvValue)
	case strings.ContainsRune(value, 0):
		return errors.New("holds a NUL")
	case strings.Contains(value, referencePrefix):
		return validReference(value)
	}
	return secretLiteral(name, value)
}

// referencePrefix begins a reference to a secret, which a worker resolves.
const referencePrefix = "qlsecret:"

var referenceForm = regexp.MustCompile(`^qlsecret:v1:[a-z0-9][a-z0-9._-]{0,62}$`)

func validReference(value string) error {
	if !referenceForm.MatchString(value) {
		return errors.New("must be the whole of qlsecret:v1:<name>, the name 1 to 63 of a-z, 0-9, dot, hyphen and underscore")
	}
	return nil
}

// IsReference reports whether an environment value refers to a secret.
func IsReference(value string) bool { return referenceForm.MatchString(value) }

// validArgument checks one more argument of a command; before are those in front of it.
func validArgument(before []string, arg string) error {
	switch {
	case len(arg) > maxArg:
		return fmt.Errorf("is longer than %d bytes", maxArg)
	case strings.ContainsRune(arg, 0):
		return errors.New("holds a NUL")
	case strings.Contains(arg, referencePrefix):
		return errors.New("a secret reference works in env only: an argument is seen by everybody on the machine")
	case len(before) == 0:
		return validProgram(arg)
	}
	return secretArgument(before[len(before)-1], arg)
}

func validProgram(program string) error {
	switch {
	case program == "":
		return errors.New("is empty: the program to execute")
	case strings.Contains(program, "/") && (!path.IsAbs(program) || path.Clean(program) != program):
		return errors.New("must be an absolute, clean path or a bare program name")
	case strings.ContainsFunc(program, unicode.IsSpace):
		return errors.New("holds a blank: give the program and each argument as elements of their own")
	}
	return plainText(program)
}

func validCommand(command []string) error {
	if len(command) == 0 {
		return errors.New("is empty: the program and its arguments")
	}
	if len(command) > maxArgs {
		return fmt.Errorf("has %d elements; at most %d are allowed", len(command), maxArgs)
	}
	return nil
}

// validSize keeps a Task below what the operating system can pass on.
func validSize(command []string, env map[string]string) error {
	size := 0
	for _, arg := range command {
		size += len(arg)
	}
	for name, value := range env {
		size += len(name) + len(value)
	}
	if size > maxSize {
		return fmt.Errorf("and env together are larger than %d KiB", maxSize>>10)
	}
	return nil
}

// sorted returns labels in order: their order in the file means nothing, so it
// must not make a new revision.
func sorted(labels []string) []string {
	slices.Sort(labels)
	return labels
}
