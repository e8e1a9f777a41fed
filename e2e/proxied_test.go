package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	proxiedHost  = "console.example"
	stepUpIssuer = "https://idp.example/realms/ops"
)

// pagesVariables give a replica its pages: who is there is what a trusted proxy says, and nobody asks the identity
// provider, since proofs are put into the database.
func pagesVariables(t testing.TB) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "step-up.yaml")
	table := "step_up:\n  - issuer: " + stepUpIssuer + "\n    client_id: console\n    request: { acr_values: [gold] }\n    second_factor: always\n" +
		"    assurance: [{ claim: acr, equals: gold, level: multi_factor }]\n"
	if err := os.WriteFile(file, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"CONSOLE_PUBLIC_URL": "https://" + proxiedHost, "CONSOLE_PROXY_IDENTITY": "headers", "CONSOLE_PROXY_NAME": "sso",
		"CONSOLE_PROXY_USER_HEADER": "X-User", "CONSOLE_TRUSTED_PROXIES": "127.0.0.1/32", "CONSOLE_STEP_UP_FILE": file}
}

// fromBrowser makes request what the proxy passes on when somebody called name asks for what accept says.
func fromBrowser(request *http.Request, name, accept string) {
	request.Host = proxiedHost
	for name, value := range map[string]string{"X-User": name, "Accept": accept, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document",
		"Sec-Fetch-Mode": "navigate"} {
		request.Header.Set(name, value)
	}
}

// public is the address of the replica's pages.
func (r *replica) public() string {
	for line := range strings.Lines(r.output.String()) {
		var said struct{ Msg, Public string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "listening" {
			return "http://" + said.Public
		}
	}
	return ""
}
