package oidc

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// example is the table of the design.
func example() Requirement {
	return Requirement{Issuer: "https://idp.example", SecondFactor: "always", RefuseAMR: []string{"wiaormfa"}, Assurance: []Rule{
		{Claim: "acr", Equals: "phrh", Level: "hardware"},
		{Claim: "amr", ContainsAll: []string{"hwk", "pin"}, Level: "hardware"},
		{Claim: "acr", Equals: "gold", Level: "multi_factor"},
		{Claim: "amr", Contains: "mfa", Level: "multi_factor"},
		{Claim: "acrs", Contains: "c1", Level: "multi_factor"},
	}}
}

func TestJudge(t *testing.T) {
	if err := example().Check(); err != nil {
		t.Fatalf("Check = %v of the design's own table", err)
	}
	tests := []struct{ name, payload, want string }{
		{"acr, compared whole", `{"acr":"gold"}`, "multi_factor"},
		{"acr with more around it", `{"acr":"gold plus"}`, "too_weak"},
		{"acr in another case", `{"acr":"Gold"}`, "too_weak"},
		{"a lower acr than asked", `{"acr":"silver"}`, "too_weak"},
		{"password alone", `{"amr":["pwd"]}`, "too_weak"},
		{"amr is a string", `{"amr":"mfa"}`, "unreadable_assurance"},
		{"amr in capitals", `{"amr":["MFA"]}`, "too_weak"},
		{"amr empty", `{"amr":[]}`, "too_weak"},
		{"nothing at all", `{}`, "too_weak"},
		{"amr holds a number", `{"amr":["mfa",1]}`, "unreadable_assurance"},
		{"amr is null", `{"amr":null}`, "unreadable_assurance"},
		{"acr is a list", `{"acr":["gold"]}`, "unreadable_assurance"},
		{"acr is a number", `{"acr":2}`, "unreadable_assurance"},
		{"password and mfa", `{"amr":["pwd","mfa"]}`, "multi_factor"},
		{"a key alone", `{"amr":["hwk"]}`, "too_weak"},
		{"a key and its PIN", `{"amr":["hwk","pin"]}`, "hardware"},
		{"the first rule wins", `{"acr":"gold","amr":["hwk","pin"]}`, "hardware"},
		{"refused whatever else", `{"acr":"phrh","amr":["wiaormfa"]}`, "too_weak"},
		{"an authentication context", `{"acrs":["c1"]}`, "multi_factor"},
		{"acrs is an object", `{"acrs":{"c1":true}}`, "unreadable_assurance"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := decodeClaims([]byte(tt.payload), claimNames)
			if err != nil {
				t.Fatal(err)
			}
			s, err := readSent(c)
			level := ""
			if err == nil {
				level, _, err = example().judge(s)
			}
			if err != nil {
				level = string(err.(*Refusal).Kind)
			}
			if level != tt.want {
				t.Errorf("judge(%s) = %s (%v), want %s", tt.payload, level, err, tt.want)
			}
		})
	}
}

// Whatever a provider sends, a level is given only if one of the rules is met by membership, and never with a refused value.
func TestJudgeGivesNoLevelWithoutARule(t *testing.T) {
	word := rapid.SampledFrom([]string{"pwd", "otp", "hwk", "pin", "mfa", "MFA", "wiaormfa", "gold", "phrh", "c1", ""})
	rapid.Check(t, func(t *rapid.T) {
		s := sent{acr: word.Draw(t, "acr"), amr: rapid.SliceOfN(word, 0, 4).Draw(t, "amr"), acrs: rapid.SliceOfN(word, 0, 2).Draw(t, "acrs")}
		level, _, err := example().judge(s)
		has := func(list []string, v string) bool {
			return strings.Contains("\x00"+strings.Join(list, "\x00")+"\x00", "\x00"+v+"\x00")
		}
		strong := s.acr == "phrh" || s.acr == "gold" || has(s.amr, "mfa") || has(s.acrs, "c1") || has(s.amr, "hwk") && has(s.amr, "pin")
		if want := strong && !has(s.amr, "wiaormfa"); (level != "") != want || (err == nil) != want {
			t.Fatalf("judge(%v) = %q, %v, want a level: %v", s, level, err, want)
		}
	})
}

func TestRequirementsThatWouldLetASingleFactorThrough(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Requirement)
		want   string
	}{
		{"second_factor not stated", func(r *Requirement) { r.SecondFactor = "" }, "must be stated"},
		{"no rule", func(r *Requirement) { r.Assurance = nil }, "no assurance rule"},
		{"no issuer", func(r *Requirement) { r.Issuer = "" }, "no issuer"},
		{"an unknown level", func(r *Requirement) { r.Assurance[0].Level = "strong" }, "want multi_factor or hardware"},
		{"acr 0", func(r *Requirement) { r.Assurance = []Rule{{Claim: "acr", Equals: "0", Level: "multi_factor"}} }, "single factor"},
		{"Okta's single factor", func(r *Requirement) {
			r.Assurance = []Rule{{Claim: "acr", Equals: "urn:okta:loa:1fa:any", Level: "multi_factor"}}
		}, "single factor"},
		{"if possible", func(r *Requirement) {
			r.Assurance = []Rule{{Claim: "acr", Equals: "urn:x:mfa:ifpossible", Level: "multi_factor"}}
		}, "single factor"},
		{"authentik's constant", func(r *Requirement) {
			r.Assurance = []Rule{{Claim: "acr", Equals: "goauthentik.io/providers/oauth2/default", Level: "multi_factor"}}
		}, "single factor"},
		{"amr pwd", func(r *Requirement) { r.Assurance = []Rule{{Claim: "amr", Contains: "pwd", Level: "multi_factor"}} }, "single factor"},
		{"amr hwk alone", func(r *Requirement) { r.Assurance = []Rule{{Claim: "amr", Contains: "hwk", Level: "hardware"}} }, "fewer than two categories"},
		{"two of one category", func(r *Requirement) {
			r.Assurance = []Rule{{Claim: "amr", ContainsAll: []string{"hwk", "otp"}, Level: "hardware"}}
		}, "fewer than two categories"},
		{"acr with contains", func(r *Requirement) { r.Assurance = []Rule{{Claim: "acr", Contains: "gold", Level: "hardware"}} }, "compared whole"},
		{"an empty value", func(r *Requirement) {
			r.Assurance = []Rule{{Claim: "amr", ContainsAll: []string{"mfa", ""}, Level: "hardware"}}
		}, "empty"},
		{"another claim", func(r *Requirement) { r.Assurance = []Rule{{Claim: "groups", Contains: "mfa", Level: "hardware"}} }, "want acr, amr or acrs"},
		{"a purpose claim without a value", func(r *Requirement) { r.PurposeClaim = "ql3_purpose" }, "want name=value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := example()
			tt.change(&r)
			if err := r.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check = %v, want one that says %q", err, tt.want)
			}
		})
	}
}

func TestPresets(t *testing.T) {
	for name := range stepUpPresets {
		r := Requirement{Issuer: "https://idp.example", SecondFactor: "always", Preset: name}
		if name == "keycloak" { // its levels are named by the realm
			r.Assurance = []Rule{{Claim: "acr", Equals: "gold", Level: "multi_factor"}}
		}
		filled, err := r.withDefaults()
		if err == nil {
			err = filled.Check()
		}
		if err != nil || filled.Request.Prompt != "login" || *filled.Request.MaxAge != 0 {
			t.Errorf("preset %s = %+v, %v", name, filled, err)
		}
	}
	for _, name := range []string{"google", "dex", "nobody"} {
		if _, err := (Requirement{Preset: name}).withDefaults(); err == nil {
			t.Errorf("preset %s is accepted for a step-up", name)
		}
	}
}

func FuzzReadSent(f *testing.F) {
	f.Add([]byte(`{"acr":"gold","amr":["pwd","mfa"],"acrs":["c1"]}`))
	f.Add([]byte(`{"amr":"mfa"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := decodeClaims(payload, claimNames)
		if err != nil {
			return
		}
		s, err := readSent(c)
		if err != nil {
			return
		}
		var plain struct {
			ACR  any `json:"acr"`
			AMR  any `json:"amr"`
			ACRS any `json:"acrs"`
		}
		if json.Unmarshal(payload, &plain) != nil {
			return
		}
		if level, _, err := example().judge(s); err == nil && level == "" {
			t.Errorf("judge(%v) gives neither a level nor a refusal", s)
		}
	})
}
