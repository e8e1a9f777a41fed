package catalog

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A definition is kept for ever and shown to operators, so a secret must not
// get into one. What follows guesses, from names and from values; it prefers a
// refusal that a reference answers to a leak that nothing answers.

var (
	errSecretLiteral  = errors.New("looks like a secret: write a reference, qlsecret:v1:<name>, and keep the value in the secret store")
	errSecretArgument = errors.New("looks like a secret: pass it in env as a reference, qlsecret:v1:<name>")
	errSecretURL      = errors.New("looks as if it held a secret: leave it out")
)

// secretLiteral refuses the value of a variable that is, by name or by value, a secret.
func secretLiteral(name, value string) error {
	if secretName(name) && !harmless(name, value) {
		return errSecretLiteral
	}
	if secretValue(value) != nil || opaque(name, value) {
		return errSecretLiteral
	}
	return nil
}

// secretArgument refuses an argument that is a secret by itself (--token=x,
// PASSWORD=x, a URL with a password) or by the option in front of it.
func secretArgument(before, arg string) error {
	name, value, assigned := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	if assigned && variable.MatchString(name) && secretName(name) && !harmless(name, value) {
		return errSecretArgument
	}
	option := strings.HasPrefix(before, "--") && !strings.Contains(before, "=")
	if option && !strings.HasPrefix(arg, "-") && secretName(before) && !harmless(before, arg) {
		return errSecretArgument
	}
	if secretValue(arg) != nil || opaque(name, arg) {
		return errSecretArgument
	}
	return nil
}

func secretURL(u string) error {
	if secretValue(u) != nil {
		return errSecretURL
	}
	return nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// words parts a variable's or option's name: DB_PASSWORD2, --db-password and
// dbPassword are all DB, PASSWORD.
func words(name string) []string {
	var b strings.Builder
	var last rune
	for _, c := range name {
		if unicode.IsUpper(c) && unicode.IsLower(last) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(c))
		last = c
	}
	parts := strings.FieldsFunc(b.String(), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
	for i, w := range parts {
		parts[i] = strings.TrimRight(w, "0123456789")
	}
	return slices.DeleteFunc(parts, func(w string) bool { return w == "" })
}

var (
	// anywhere in a word
	secretPart = regexp.MustCompile(`PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|SECRET|APIKEY|ACCESSKEY|PRIVATEKEY|AUTHKEY`)
	// at the end of a word: not TOKENIZERS, not KEYBOARD
	secretEnd = regexp.MustCompile(`TOKENS?$|^KEYS?$|^PASS$|^PWD?$|^PSK$`)
	// words before KEY that make it a name for something
	keyKinds = regexp.MustCompile(`^(PUBLIC|PUB|SORT|PARTITION|PRIMARY|FOREIGN|UNIQUE|ROUTING|CACHE|GROUP|INDEX|SHARD|OBJECT)$`)
	// last words that make it a name for something about a secret
	aboutSecret = regexp.MustCompile(`^(NAME|URL|URI|ENDPOINT|HOST|TTL|TYPE|SIZE|LENGTH|LEN|COUNT|LIMIT|EXPIRY|TIMEOUT|ALGORITHM|ALG|PREFIX|SUFFIX|FORMAT|POLICY|HEADER|ENABLED|REQUIRED|VERSION|INTERVAL|AGE|DAYS|SECONDS|MINUTES|ISSUER|AUDIENCE)$`)
	aboutFile   = regexp.MustCompile(`^(PATH|PATHS|FILE|FILES|DIR|DIRECTORY|FILENAME|LOCATION|STORE)$`)
)

// secretName reports whether a variable or option of this name holds a secret.
func secretName(name string) bool {
	if name == "PWD" || name == "OLDPWD" { // the shell's own
		return false
	}
	ws := words(name)
	if len(ws) == 0 || aboutSecret.MatchString(ws[len(ws)-1]) {
		return false
	}
	if len(ws) > 1 && ws[len(ws)-1] == "ID" && ws[len(ws)-2] != "SECRET" { // KEY_ID, but a SECRET_ID is one
		return false
	}
	for i, w := range ws {
		if strings.HasPrefix(w, "KEY") && i > 0 && keyKinds.MatchString(ws[i-1]) {
			continue
		}
		if secretPart.MatchString(w) || secretEnd.MatchString(w) {
			return true
		}
	}
	return false
}

var (
	pathForm  = regexp.MustCompile(`^(/|\./|\.\./|~/)?[A-Za-z0-9._@%+-]+(/[A-Za-z0-9._@%+-]+)+/?$|^[A-Za-z0-9_-]+\.[a-z]{2,6}$`)
	rooted    = regexp.MustCompile(`^/[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$`)
	smallInt  = regexp.MustCompile(`^[0-9]{1,7}$`)
	variables = regexp.MustCompile(`^["']?\$[A-Za-z_{(]`)
)

// harmless reports whether value is no secret although its name says so: empty,
// a yes or no, a file's path, a number of tokens, or a shell's variable.
func harmless(name, value string) bool {
	ws := words(name)
	switch strings.ToLower(value) {
	case "", "true", "false", "yes", "no", "on", "off", "none", "null":
		return true
	}
	if aboutFile.MatchString(ws[len(ws)-1]) && (pathForm.MatchString(value) || rooted.MatchString(value)) {
		return true
	}
	if slices.Contains(ws, "TOKENS") && smallInt.MatchString(value) {
		return true
	}
	return rooted.MatchString(value) || variables.MatchString(value)
}

// known are values that are secrets by their own form, wherever they stand.
var known = []*regexp.Regexp{
	regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY`),
	regexp.MustCompile(`PuTTY-User-Key-File-|AGE-SECRET-KEY-1`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), // JWT
	regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})`),
	regexp.MustCompile(`\b(xox[abeprs]-[A-Za-z0-9-]{10,}|[srp]k_(live|test)_[A-Za-z0-9]{10,}|sk-[A-Za-z0-9_-]{20,})`),
	regexp.MustCompile(`\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|hvs\.[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,}|dop_v1_[a-f0-9]{30,}|SG\.[A-Za-z0-9_-]{16,}\.)`),
	regexp.MustCompile(`(?i)\bauthorization\s*:\s*(bearer|basic|token)\s+[^\s$"']{6,}`),
	regexp.MustCompile(`(?i)^(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}$`),
}

var (
	urlPassword = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^/\s:@?#]*:([^/\s@?#]+)@`)
	assignment  = regexp.MustCompile(`(?i)(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)["']?\s*[=:]\s*["']?([^\s"'&;,]+)`)
)

// secretValue refuses a value that is, or holds, a secret whatever it is called.
func secretValue(value string) error {
	for _, form := range known {
		if form.MatchString(value) {
			return errSecretLiteral
		}
	}
	for _, m := range urlPassword.FindAllStringSubmatch(value, -1) {
		if !strings.HasPrefix(m[1], "$") {
			return errSecretLiteral
		}
	}
	for _, m := range assignment.FindAllStringSubmatch(value, -1) {
		if !harmless("VALUE", m[1]) && !strings.HasPrefix(m[1], "$") {
			return errSecretLiteral
		}
	}
	return nil
}

var (
	token     = regexp.MustCompile(`[A-Za-z0-9+/=_-]{32,}`)
	uuidLike  = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	digested  = regexp.MustCompile(`(?i)\b(sha1|sha224|sha256|sha384|sha512|md5)[:-][A-Za-z0-9+/=]+`)
	hashNames = regexp.MustCompile(`SHA|COMMIT|DIGEST|HASH|CHECKSUM|REVISION|FINGERPRINT|ETAG|SRI`)
	pathLike  = regexp.MustCompile(`^(\.{0,2}|~)/|://`)
)

// opaque reports whether value holds a long string that looks drawn at random.
// Digests, UUIDs and paths look so too and are let through.
func opaque(name, value string) bool {
	if hashNames.MatchString(strings.ToUpper(name)) {
		return false
	}
	value = digested.ReplaceAllString(value, "")
	for _, t := range token.FindAllString(value, -1) {
		parts := []string{t}
		if pathLike.MatchString(value) {
			parts = strings.Split(t, "/")
		}
		if slices.ContainsFunc(parts, random) {
			return true
		}
	}
	return false
}

// random reports whether s has the mixture of a random string: written words
// and names change between letters, capitals and digits far less often.
func random(s string) bool {
	if len(s) < 32 || uuidLike.MatchString(s) {
		return false
	}
	pairs, changes, digits := 0, 0, 0
	last := byte(0)
	for i := range len(s) {
		class := classOf(s[i])
		if class == 'd' {
			digits++
		}
		if class != 0 && last != 0 {
			pairs++
			if class != last && (last != 'U' || class != 'l') { // a capital begins a word
				changes++
			}
		}
		last = class
	}
	return digits > 0 && changes*10 >= pairs*3 && entropy(s) >= 3
}

func classOf(c byte) byte {
	switch {
	case c >= 'a' && c <= 'z':
		return 'l'
	case c >= 'A' && c <= 'Z':
		return 'U'
	case c >= '0' && c <= '9':
		return 'd'
	}
	return 0
}

// entropy returns Shannon's, in bits a byte.
func entropy(s string) float64 {
	var counts [256]float64
	for i := range len(s) {
		counts[s[i]]++
	}
	bits := 0.0
	for _, n := range counts {
		if n > 0 {
			p := n / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// Redact replaces the words of a line that look like secrets, by their form or by the name in front of them. Like the
// refusals above it is a guess.
func Redact(line, replacement string) string {
	fields := strings.Fields(line)
	var hidden []string
	for i, word := range fields {
		before := ""
		if i > 0 {
			before = strings.Trim(fields[i-1], ":=\"',")
		}
		scheme := strings.EqualFold(before, "bearer") || strings.EqualFold(before, "basic")
		if scheme || secretArgument("", strings.Trim(word, "\"',;")) != nil || secretName(before) && strings.ContainsAny(fields[i-1], ":=") && !harmless(before, word) {
			hidden = append(hidden, word)
		}
	}
	for _, word := range hidden {
		line = strings.ReplaceAll(line, word, replacement)
	}
	return line
}
