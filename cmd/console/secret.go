package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// A secret is REDACTED in every log line, in JSON, and under every verb that vet allows. String alone would not do: a
// verb that strings do not have, such as %d, prints what is behind it.
type secret string

const redacted = "REDACTED"

func (secret) String() string               { return redacted }
func (secret) Format(s fmt.State, _ rune)   { io.WriteString(s, redacted) }
func (secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (s secret) reveal() string             { return string(s) }

// secretVariable is an option that is never a flag: flags are seen in process lists and shell histories.
type secretVariable struct {
	name string
	help string
}

// read returns the value of the variable or of the file that NAME_FILE names, without its final newline. Neither set
// is an empty secret; both set is a mistake.
func (v secretVariable) read(getenv func(string) string) (secret, error) {
	value, file := getenv(v.name), getenv(v.name+"_FILE")
	if value != "" && file != "" {
		return "", fmt.Errorf("%s and %s_FILE are both set; keep one", v.name, v.name)
	}
	if file == "" {
		return secret(value), nil
	}
	s, err := readSecretFile(file)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", v.name, err)
	}
	return s, nil
}

// readSecretFile returns what file holds, without its final newline.
func readSecretFile(file string) (secret, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", withoutOperation(err)
	}
	return secret(strings.TrimRight(string(content), "\r\n")), nil
}

func withoutOperation(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot read %s: %w", e.Path, e.Err)
	}
	return err
}
