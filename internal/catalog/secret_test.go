package catalog

import "testing"

const (
	// Made up for these tests; each has only the form of the real thing.
	jwt     = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ0ZXN0In0.c2lnbmF0dXJlLW9mLXRlc3Q"
	awsID   = "AKIA" + "QQQQQQQQQQQQQQQQ"
	ghToken = "ghp_" + "0123456789abcdefghij0123456789abcdef"
	base62  = "q7Zp2Lx9Vt4Ns8Kd1Wb6Yf3Hc5Jg0Rm2Tn7"
	hex40   = "3f786850e387550fdab836ed7e6dc881de23001b"
	pem     = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n"
)

func TestSecretLiteral(t *testing.T) {
	tests := []struct {
		name, env, value string
		secret           bool
	}{
		{"token", "TOKEN", "abc", true},
		{"token of something", "GITHUB_TOKEN", "abc", true},
		{"no underscore", "GITHUBTOKEN", "abc", true},
		{"lower case", "db_password", "hunter2", true},
		{"camel case", "dbPassword", "hunter2", true},
		{"numbered", "DB_PASSWORD_2", "hunter2", true},
		{"in front", "PASSWORD_ADMIN", "hunter2", true},
		{"digits only", "PASSWORD", "123456", true},
		{"passwd", "PASSWD", "x", true},
		{"pgpassword", "PGPASSWORD", "x", true},
		{"pass", "SMTP_PASS", "x", true},
		{"pwd", "DB_PWD", "x", true},
		{"passphrase", "SSH_PASSPHRASE", "x", true},
		{"secret", "CLIENT_SECRET", "x", true},
		{"secret id", "VAULT_SECRET_ID", "x", true},
		{"credentials", "GOOGLE_CREDENTIALS", "{}", true},
		{"api key", "API_KEY", "x", true},
		{"apikey", "STRIPE_APIKEY", "x", true},
		{"private key", "PRIVATE_KEY", "x", true},
		{"aws secret", "AWS_SECRET_ACCESS_KEY", "x", true},
		{"file name without a file", "PASSWORD_FILE", "hunter2", true},

		{"PEM", "CONFIG", pem, true},
		{"JWT", "CONFIG", jwt, true},
		{"AWS key id", "AWS_ACCESS_KEY_ID", awsID, true},
		{"GitHub token", "CONFIG", ghToken, true},
		{"URL with a password", "DATABASE_URL", "postgres://app:hunter2@db/app", true},
		{"URL without a user", "REDIS_URL", "redis://:hunter2@cache/0", true},
		{"connection string", "DSN", "host=db user=app password=hunter2", true},
		{"token in a query", "HOOK", "https://hooks.example/x?token=abcdef", true},
		{"authorization", "HEADER", "Authorization: Bearer abcdefgh", true},
		{"bearer", "HEADER", "Bearer abcdefgh", true},
		{"JSON", "CONFIG", `{"password": "hunter2"}`, true},
		{"random letters", "SALT", base62, true},
		{"random hex", "SALT", hex40, true},
		{"random in a path", "HOOK", "https://hooks.example/services/" + base62, true},

		{"empty", "TOKEN", "", false},
		{"boolean", "TOKENIZERS_PARALLELISM", "false", false},
		{"tokenizer", "TOKENIZER", "cl100k", false},
		{"required", "PASSWORD_REQUIRED", "1", false},
		{"keyboard", "KEYBOARD", "us", false},
		{"monkey", "MONKEY", "see", false},
		{"public key", "PUBLIC_KEY_PATH", "/etc/x", false},
		{"public key file", "PUBLIC_KEY", "/etc/x/key.pub", false},
		{"key file", "TLS_KEY", "/etc/tls/tls.key", false},
		{"token file", "TOKEN_FILE", "/run/secrets/token", false},
		{"token file here", "TOKEN_FILE", "token.txt", false},
		{"sort key", "SORT_KEY", "created_at", false},
		{"key id", "SIGNING_KEY_ID", "2024-prod", false},
		{"token url", "TOKEN_URL", "https://id.example/token", false},
		{"max tokens", "MAX_TOKENS", "4096", false},
		{"ttl", "TOKEN_TTL", "3600", false},
		{"working directory", "PWD", "/srv", false},
		{"compass", "COMPASS", "north", false},
		{"bypass", "BYPASS_PROXY", "localhost", false},
		{"author", "AUTHOR", "Grace", false},
		{"region", "REGION", "eu", false},
		{"git commit", "GIT_SHA", hex40, false},
		{"image digest", "IMAGE", "registry.example/app@sha256:" + hex40 + "0123456789abcdef01234567", false},
		{"uuid", "TENANT", "6f1c8b1e-2b0f-4c52-9d43-0d5f1f6f2a11", false},
		{"long path", "DIR", "/srv/application2/releases/20240131T101112/current/public", false},
		{"long name", "SERVICE", "billing-export-worker-v2-eu-west-1-production", false},
		{"long words", "CLASS", "com.example.reports.NightlyCustomerReportGeneratorFactory2", false},
		{"URL with a user", "DATABASE_URL", "postgres://app@db/app?sslmode=verify-full", false},
		{"URL with a variable", "DATABASE_URL", "postgres://app:$PGPASSWORD@db/app", false},
		{"prose", "SUBJECT", "Your report for yesterday is ready", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := secretLiteral(tt.env, tt.value); (err != nil) != tt.secret {
				t.Errorf("secretLiteral(%q, %q) = %v, want a refusal: %t", tt.env, tt.value, err, tt.secret)
			}
		})
	}
}

func TestSecretArgument(t *testing.T) {
	tests := []struct {
		name, before, arg string
		secret            bool
	}{
		{"option", "x", "--password=hunter2", true},
		{"option of one hyphen", "x", "-password=hunter2", true},
		{"option in two", "--api-key", "hunter2", true},
		{"assignment", "env", "PGPASSWORD=hunter2", true},
		{"URL", "psql", "postgres://app:hunter2@db/app", true},
		{"header", "-H", "Authorization: Bearer hunter2hunter2", true},
		{"script", "-c", "curl -H 'X-Token: hunter2' https://x", true},
		{"script that assigns", "-c", "PGPASSWORD=hunter2 psql", true},
		{"random", "--session", base62, true},
		{"JWT", "x", jwt, true},

		{"option with a file", "x", "--token-file=/run/secrets/token", false},
		{"option with a variable", "-c", "psql postgres://app:${PGPASSWORD}@db/app", false},
		{"script that passes on", "-c", "PGPASSWORD=\"$DB_PASSWORD\" psql", false},
		{"flag and flag", "--password", "--stdin", false},
		{"flag and file", "--key", "/etc/tls/tls.key", false},
		{"plain", "--day", "yesterday", false},
		{"key of something", "x", "--sort-key=created_at", false},
		{"commit", "x", "--commit=" + hex40, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := secretArgument(tt.before, tt.arg); (err != nil) != tt.secret {
				t.Errorf("secretArgument(%q, %q) = %v, want a refusal: %t", tt.before, tt.arg, err, tt.secret)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	tests := []struct{ line, want string }{
		{"connection to billing refused", "connection to billing refused"},
		{"login failed password=hunter2SECRETVALUE", "login failed [redacted]"},
		{"Authorization: Bearer abcdef0123456789", "Authorization: Bearer [redacted]"},
		{"cannot reach postgres://u:pwpwpw@h/d", "cannot reach [redacted]"},
		{"token: xyz-not-known-form", "token: [redacted]"},
		{"the token has expired", "the token has expired"},
		{"read /etc/app/key.pem: permission denied", "read /etc/app/key.pem: permission denied"},
		{"AKIAIOSFODNN7EXAMPLE is disabled", "[redacted] is disabled"},
	}
	for _, tt := range tests {
		if got := Redact(tt.line, "[redacted]"); got != tt.want {
			t.Errorf("Redact(%q) = %q, want %q", tt.line, got, tt.want)
		}
	}
}
