package oidc

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDecodeClaims(t *testing.T) {
	tests := []struct {
		name, payload string
		ok            bool
	}{
		{"empty", `{}`, true},
		{"unread names may be there twice, in any case", `{"x":1,"x":2,"X":3}`, true},
		{"twice", `{"sub":"a","sub":"a"}`, false},
		{"upper case alone", `{"SUB":"a"}`, false},
		{"Kelvin sign", `{"no\u212ace":"a","nonce":"b"}`, true}, // folds to no name that is read
		{"long s", `{"i\u017fs":"a"}`, false},
		{"escaped, it is the same name", `{"s\u0075b":"a","sub":"b"}`, false},
		{"null", `null`, false},
		{"an array", `[]`, false},
		{"a string", `"sub"`, false},
		{"nothing", ``, false},
		{"cut off", `{"sub":"a"`, false},
		{"followed", `{}{}`, false},
		{"followed by white space", "{} \n", true},
		{"not JSON", `{"sub":a}`, false},
	}
	for _, tt := range tests {
		if _, err := decodeClaims([]byte(tt.payload), claimNames); (err == nil) != tt.ok {
			t.Errorf("decodeClaims(%s), %s = %v, want ok %v", tt.payload, tt.name, err, tt.ok)
		}
	}
}

func TestClaimTypes(t *testing.T) {
	c := must(decodeClaims([]byte(`{"s":"x","n":7,"nul":null,"t":true,"ts":"true","aud1":"a","f":1700000000.5,"big":1e300,"o":{}}`), claimNames))
	for name, want := range map[string]bool{"s": true, "n": false, "nul": false, "t": false, "o": false, "missing": false} {
		if _, ok := c.text(name); ok != want {
			t.Errorf("text(%s) ok = %v, want %v", name, ok, want)
		}
	}
	for name, want := range map[string]bool{"t": true, "ts": false, "n": false, "missing": false} {
		if got := c.isTrue(name); got != want {
			t.Errorf("isTrue(%s) = %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{"n": true, "f": true, "big": false, "s": false, "nul": false, "missing": false} {
		if _, ok := c.instant(name); ok != want {
			t.Errorf("instant(%s) ok = %v, want %v", name, ok, want)
		}
	}
	if at, _ := c.instant("f"); !at.Equal(time.UnixMilli(1_700_000_000_500)) {
		t.Errorf("instant(f) = %v", at)
	}
	for payload, want := range map[string]int{`{"aud":"a"}`: 1, `{"aud":["a","b"]}`: 2, `{"aud":[]}`: 0, `{"aud":7}`: 0, `{}`: 0, `{"aud":["a",7]}`: 0} {
		if got := must(decodeClaims([]byte(payload), claimNames)).audience(); len(got) != want {
			t.Errorf("audience() of %s = %q, want %d", payload, got, want)
		}
	}
}

func TestAddressAndName(t *testing.T) {
	for in, want := range map[string]string{"a@b": "a@b", "a@b@c": "", "ab": "", "": "", "a@b\u202e": "", " a@b": "", "a\x00@b": ""} {
		if got := address(in); got != want {
			t.Errorf("address(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"Ada": "Ada", " Ada\n ": "Ada", "\u202eadA": "adA", "Ada\x00": "Ada", "Zoë 李": "Zoë 李"} {
		if got := displayed(in, maxName); got != want {
			t.Errorf("displayed(%q) = %q, want %q", in, got, want)
		}
	}
	if got := displayed("李李李", 2); got != "李李" {
		t.Errorf("displayed(three, 2) = %q, want two characters", got)
	}
}

func TestRouteRoundTrip(t *testing.T) {
	tests := []struct {
		name  string
		route Route
		ok    bool
	}{
		{"home", Route{}, true},
		{"a Run", testRoute, true},
		{"ids without a name", Route{IDs: map[string]string{"id": "1"}}, false},
		{"a path", Route{Name: "/runs"}, false},
		{"a NUL in an id", Route{Name: "run", IDs: map[string]string{"id": "a\x00"}}, false},
		{"no UTF-8 in a query", Route{Name: "run", Query: map[string][]string{"q": {"\xff"}}}, false},
		{"too long", Route{Name: "run", Query: map[string][]string{"q": {string(make([]byte, maxRoute))}}}, false},
	}
	for _, tt := range tests {
		encoded, err := tt.route.encode()
		if (err == nil) != tt.ok {
			t.Errorf("encode() of %s = %v, want ok %v", tt.name, err, tt.ok)
			continue
		}
		if err != nil {
			continue
		}
		back, err := decodeRoute(encoded)
		if err != nil || string(must(json.Marshal(back))) != string(encoded) {
			t.Errorf("decodeRoute(%s) = %+v, %v", encoded, back, err)
		}
	}
}

// What joins one issuer's user to another's must be the issuer's word: an address only if it has verified it.
func TestJoinKey(t *testing.T) {
	tests := []struct{ name, claim, payload, want string }{
		{"an identifier", "employee", `{"employee":"e-17"}`, "e-17"},
		{"none configured", "", `{"employee":"e-17"}`, ""},
		{"not sent", "employee", `{}`, ""},
		{"a number", "employee", `{"employee":17}`, ""},
		{"a verified address", "email", `{"email":"a@ops.example","email_verified":true}`, "a@ops.example"},
		{"an address that is not verified", "email", `{"email":"a@ops.example","email_verified":false}`, ""},
		{"verified, says a string", "email", `{"email":"a@ops.example","email_verified":"true"}`, ""},
		{"nobody says whether", "email", `{"email":"a@ops.example"}`, ""},
		{"two @", "email", `{"email":"a@b@ops.example","email_verified":true}`, ""},
		{"no @", "email", `{"email":"a","email_verified":true}`, ""},
		{"not ASCII", "email", `{"email":"ä@ops.example","email_verified":true}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := must(decodeClaims([]byte(tt.payload), namesWith(tt.claim))).joinKey(tt.claim); got != tt.want {
				t.Errorf("joinKey(%s, %s) = %q, want %q", tt.payload, tt.claim, got, tt.want)
			}
		})
	}
}
