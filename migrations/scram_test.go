package migrations

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"regexp"
	"testing"
)

// The exchange is the one of RFC 7677, section 3: what its server and client computed must follow from our verifier.
func TestScramVerifierFitsTheExchangeOfTheRFC(t *testing.T) {
	const (
		salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
		auth = "n=user,r=rOprNGfwEbeRWgbNEkqO," +
			"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=" + salt + ",i=4096," +
			"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
		clientProof     = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
		serverSignature = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
	)
	verifier, err := scramVerifier("pencil", decode(t, salt))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`^SCRAM-SHA-256\$4096:` + regexp.QuoteMeta(salt) + `\$([^:]+):([^:]+)$`).FindStringSubmatch(verifier)
	if m == nil {
		t.Fatalf("scramVerifier() = %s, not of PostgreSQL's form", verifier)
	}
	storedKey, serverKey := decode(t, m[1]), decode(t, m[2])
	if got := base64.StdEncoding.EncodeToString(sign(serverKey, auth)); got != serverSignature {
		t.Errorf("ServerKey signs %s, want %s", got, serverSignature)
	}
	clientKey := make([]byte, sha256.Size)
	subtle.XORBytes(clientKey, decode(t, clientProof), sign(storedKey, auth))
	if sha256.Sum256(clientKey) != [sha256.Size]byte(storedKey) {
		t.Errorf("StoredKey %s refuses the client's proof", m[1])
	}
}

func sign(key []byte, message string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(message))
	return m.Sum(nil)
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
