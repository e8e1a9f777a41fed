package idp

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-webauthn/webauthn/webauthn"
)

// An Account is a person at this provider. A role is what `console dev` grants it; the newcomer has none.
type Account struct {
	Role       string `json:"role"`
	Username   string `json:"username"`
	Name       string `json:"name"`
	Email      string `json:"email"` // said to be verified
	Subject    string `json:"subject"`
	Password   string `json:"password"`
	TOTPSecret string `json:"totpSecret"` // base32 without padding
}

// people are made at the first start. Their subjects need no memory: they are the same on every machine.
var people = []Account{
	{Role: "viewer", Username: "viewer", Name: "Vera Viewer"},
	{Role: "operator", Username: "operator", Name: "Omar Operator"},
	{Role: "admin", Username: "admin", Name: "Ada Admin"},
	{Role: "owner", Username: "owner", Name: "Olga Owner"},
	{Username: "newcomer", Name: "Nils Newcomer"},
}

// A state is the file in Config.Dir: what must survive a restart.
type state struct {
	SigningKey []byte     `json:"signingKey"` // RSA, PKCS #8
	Accounts   []*account `json:"accounts"`

	path string
}

// An account is an Account and what happened to it. It is guarded by the store's mutex.
type account struct {
	Account
	Passkeys []webauthn.Credential `json:"passkeys,omitempty"`
	LastStep uint64                `json:"lastStep,omitempty"` // of the newest one-time code accepted; it and older ones are spent

	lastAuth int64 // auth_time of the newest sign-in, in seconds
}

const keyBits = 2048

// openState reads the state in dir, or makes it: the keys at the first start, an account when it is missing.
func openState(dir string) (*state, *rsa.PrivateKey, error) {
	s := &state{path: filepath.Join(dir, "idp.json")}
	content, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, nil, err
	default:
		if err := json.Unmarshal(content, s); err != nil {
			return nil, nil, fmt.Errorf("%s is damaged; remove it, and new keys and passwords are made: %w", s.path, err)
		}
	}
	key, err := s.complete()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	return s, key, s.save()
}

// complete makes what the state lacks.
func (s *state) complete() (*rsa.PrivateKey, error) {
	for _, p := range people {
		if s.find(p.Username) == nil {
			s.Accounts = append(s.Accounts, newAccount(p))
		}
	}
	if s.SigningKey == nil {
		key, err := rsa.GenerateKey(rand.Reader, keyBits)
		if err != nil {
			return nil, err
		}
		s.SigningKey, err = x509.MarshalPKCS8PrivateKey(key)
		return key, err
	}
	key, err := x509.ParsePKCS8PrivateKey(s.SigningKey)
	if err != nil {
		return nil, fmt.Errorf("the signing key in %s: %w", s.path, err)
	}
	signer, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the signing key in %s is a %T, not RSA", s.path, key)
	}
	return signer, nil
}

func newAccount(p Account) *account {
	p.Subject = "dev-" + p.Username
	p.Email = p.Username + "@dev.example"
	p.Password = strings.ToLower(rand.Text()[:16]) // 80 bits, and short enough to type
	secret := make([]byte, 20)
	rand.Read(secret)
	p.TOTPSecret = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	return &account{Account: p}
}

// find returns the account with that name, address or subject, or nil.
func (s *state) find(who string) *account {
	for _, a := range s.Accounts {
		if who != "" && (who == a.Username || who == a.Email || who == a.Subject) {
			return a
		}
	}
	return nil
}

// save makes the file appear whole or not at all, and readable by its owner alone.
func (s *state) save() error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	part := s.path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // WriteFile would keep its mode
	}
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, s.path)
}
