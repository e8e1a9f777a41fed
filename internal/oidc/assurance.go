package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/qinglong/console/internal/text"
)

// A Requirement is what an issuer must send for a step-up: the table by which acr, amr and acrs become a level. What was
// asked for is never taken as what was done.
type Requirement struct {
	Issuer       string   `yaml:"issuer"` // compared exactly; a trailing slash counts
	Request      Request  `yaml:"request"`
	SecondFactor string   `yaml:"second_factor"` // always or session: does the provider ask the second factor anew each time?
	RefuseAMR    []string `yaml:"refuse_amr"`
	Assurance    []Rule   `yaml:"assurance"`
	PurposeClaim string   `yaml:"purpose_claim"` // "name=value" that must be in the token; empty is none
	Preset       string   `yaml:"preset"`        // a known provider's request and rules, used where none are given
}

// Request is what is asked of the provider.
type Request struct {
	Prompt       string   `yaml:"prompt"`  // default login
	MaxAge       *int     `yaml:"max_age"` // seconds; default 0
	ACRValues    []string `yaml:"acr_values"`
	EssentialACR bool     `yaml:"essential_acr"` // ask by an essential claim, too
}

// A Rule maps one claim to a level: multi_factor or hardware.
type Rule struct {
	Claim       string   `yaml:"claim"` // acr, amr or acrs
	Equals      string   `yaml:"equals"`
	Contains    string   `yaml:"contains"`
	ContainsAll []string `yaml:"contains_all"`
	Level       string   `yaml:"level"`
}

// words say what the rule wants.
func (r Rule) words() text.Text {
	switch {
	case r.Claim == "acr":
		return text.Of("acr is %s", strconv.Quote(r.Equals))
	case r.Contains != "":
		return text.Of("%s contains %s", r.Claim, strconv.Quote(r.Contains))
	}
	return text.Of("%s contains all of %s", r.Claim, fmt.Sprintf("%q", r.ContainsAll))
}

// The levels, and the two ways a provider treats its second factor.
const (
	levelMultiFactor   = "multi_factor"
	levelHardware      = "hardware"
	secondFactorAlways = "always"
	secondFactorOnce   = "session"
)

// weak are values that providers send for a password alone, or for anything.
var weak = []string{"0", "none", "wiaormfa", "pwd", "goauthentik.io/providers/oauth2/default"}

// factors tells which category of factor an amr value stands for (RFC 8176).
var factors = map[string]string{"pwd": "knowledge", "pin": "knowledge", "kba": "knowledge", "otp": "possession", "hwk": "possession", "swk": "possession",
	"sms": "possession", "sc": "possession", "tel": "possession", "mca": "possession", "fpt": "inherence", "face": "inherence", "iris": "inherence",
	"retina": "inherence", "vbm": "inherence", "user": "inherence"}

// Check reports every mistake in the table at once: what maps a value that is known to be weak is refused at the start.
func (r Requirement) Check() error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("step-up at %s: "+format, append([]any{r.Issuer}, args...)...))
	}
	if r.Issuer == "" {
		return errors.New("a step-up issuer has no issuer")
	}
	if r.SecondFactor != secondFactorAlways && r.SecondFactor != secondFactorOnce {
		fail("second_factor must be stated: always, or session if the second factor may be hours old")
	}
	if len(r.Assurance) == 0 {
		fail("there is no assurance rule, so nothing would ever be strong enough")
	}
	if name, value, ok := strings.Cut(r.PurposeClaim, "="); r.PurposeClaim != "" && (!ok || name == "" || value == "") {
		fail("purpose_claim is %q, want name=value", r.PurposeClaim)
	}
	for i, rule := range r.Assurance {
		if err := rule.check(); err != nil {
			fail("rule %d: %w", i+1, err)
		}
	}
	return errors.Join(errs...)
}

func (r Rule) check() error {
	if r.Level != levelMultiFactor && r.Level != levelHardware {
		return fmt.Errorf("level is %q, want multi_factor or hardware", r.Level)
	}
	values := r.ContainsAll
	switch r.Claim {
	case "acr":
		if r.Contains != "" || len(values) > 0 {
			return errors.New("acr is one string, compared whole: use equals")
		}
		values = []string{r.Equals}
	case "amr", "acrs":
		if r.Equals != "" || (r.Contains == "") == (len(values) == 0) {
			return fmt.Errorf("%s is a list: use contains or contains_all, one of them", r.Claim)
		}
		if r.Contains != "" {
			values = []string{r.Contains}
		}
	default:
		return fmt.Errorf("claim is %q, want acr, amr or acrs", r.Claim)
	}
	return checkValues(r.Claim, values)
}

func checkValues(claim string, values []string) error {
	for _, v := range values {
		switch {
		case v == "":
			return errors.New("a value is empty")
		case claim == "acr" && (slices.Contains(weak, v) || strings.HasPrefix(v, "urn:okta:loa:1fa:") || strings.HasSuffix(v, ":ifpossible")):
			return fmt.Errorf("%q is sent for a single factor, or for anything", v)
		case slices.Contains(weak, v) && len(values) == 1:
			return fmt.Errorf("%q is a single factor", v)
		}
	}
	if claim != "amr" || slices.Contains(values, "mfa") || slices.Contains(values, "ngcmfa") {
		return nil
	}
	categories := map[string]bool{}
	for _, v := range values {
		if c, ok := factors[v]; ok {
			categories[c] = true
		}
	}
	if len(categories) < 2 {
		return fmt.Errorf("%q names fewer than two categories of factor (knowledge, possession, inherence)", values)
	}
	return nil
}

// sent is what a token says of how its user authenticated.
type sent struct {
	acr  string
	amr  []string
	acrs []string
}

// readSent reads acr as one string and amr and acrs as lists of strings; any other type is a refusal that says what was
// found.
func readSent(c claims) (s sent, err error) {
	if raw, there := c["acr"]; there {
		var ok bool
		if s.acr, ok = c.text("acr"); !ok {
			return s, refuse(Unreadable, text.Of("The claim acr is %s, not a string.", jsonKind(raw)))
		}
	}
	if s.amr, err = readList(c, "amr"); err != nil {
		return s, err
	}
	s.acrs, err = readList(c, "acrs")
	return s, err
}

func readList(c claims, name string) (list []string, err error) {
	raw, there := c[name]
	if !there {
		return nil, nil
	}
	if len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, refuse(Unreadable, text.Of("The claim %s is %s, not a list of strings.", name, jsonKind(raw)))
	}
	return list, nil
}

func jsonKind(raw json.RawMessage) text.Text {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return text.Data("null")
	case raw[0] == '"':
		return text.Of("a string")
	case raw[0] == '{':
		return text.Of("an object")
	case raw[0] == '[':
		return text.Of("a list that holds something else")
	case raw[0] == 't' || raw[0] == 'f':
		return text.Of("a boolean")
	}
	return text.Of("a number")
}

// met reports whether what was sent satisfies the rule.
func (r Rule) met(s sent) bool {
	switch {
	case r.Claim == "acr":
		return r.Equals != "" && s.acr == r.Equals
	case r.Contains != "":
		return slices.Contains(s.list(r.Claim), r.Contains)
	}
	return len(r.ContainsAll) > 0 && !slices.ContainsFunc(r.ContainsAll, func(v string) bool { return !slices.Contains(s.list(r.Claim), v) })
}

func (s sent) list(claim string) []string {
	if claim == "acrs" {
		return s.acrs
	}
	return s.amr
}

func (s sent) String() string {
	return fmt.Sprintf("acr %q, amr %q, acrs %q", s.acr, s.amr, s.acrs)
}

// Judged is how one rule fared, for the test page.
type Judged struct {
	Rule text.Text
	Met  bool
}

// judge returns the level of the first rule that is met, after refuse_amr, and how each fared.
func (r Requirement) judge(s sent) (level string, trace []Judged, err error) {
	for _, v := range r.RefuseAMR {
		if slices.Contains(s.amr, v) {
			return "", []Judged{{Rule: text.Of("amr does not contain %s", strconv.Quote(v))}}, refuse(TooWeak, text.Of("The provider says %s, which is not accepted. It sent %s.", strconv.Quote(v), s.String()))
		}
	}
	for _, rule := range r.Assurance {
		met := rule.met(s)
		trace = append(trace, Judged{Rule: text.Of("%s → %s", rule.words(), rule.Level), Met: met})
		if met && level == "" {
			level = rule.Level
		}
	}
	if level == "" {
		return "", trace, refuse(TooWeak, text.Of("The sign-in was not strong enough: the provider sent %s; needed is %s.", s.String(), r.needed()))
	}
	return level, trace, nil
}

func (r Requirement) needed() text.Text {
	rules := make([]text.Text, len(r.Assurance))
	for i, rule := range r.Assurance {
		rules[i] = rule.words()
	}
	return text.Join(text.Of(", or "), rules...)
}

// stepUpPresets are known providers' requests and rules.
var stepUpPresets = map[string]Requirement{
	"okta": {Request: Request{ACRValues: []string{"urn:okta:loa:2fa:any"}}, Assurance: []Rule{
		{Claim: "acr", Equals: "phrh", Level: levelHardware}, {Claim: "acr", Equals: "urn:okta:loa:2fa:any", Level: levelMultiFactor}, {Claim: "amr", Contains: "mfa", Level: levelMultiFactor}}},
	"auth0": {Request: Request{ACRValues: []string{"http://schemas.openid.net/pape/policies/2007/06/multi-factor"}},
		Assurance: []Rule{{Claim: "amr", Contains: "mfa", Level: levelMultiFactor}}},
	"entra": {RefuseAMR: []string{"wiaormfa"}, Assurance: []Rule{
		{Claim: "acrs", Contains: "c1", Level: levelMultiFactor}, {Claim: "amr", Contains: "ngcmfa", Level: levelMultiFactor}, {Claim: "amr", Contains: "mfa", Level: levelMultiFactor}}},
	"authentik": {Assurance: []Rule{{Claim: "amr", Contains: "mfa", Level: levelMultiFactor}}},
	"zitadel":   {Assurance: []Rule{{Claim: "amr", Contains: "mfa", Level: levelMultiFactor}}},
	"authelia": {Assurance: []Rule{
		{Claim: "amr", ContainsAll: []string{"hwk", "pin"}, Level: levelHardware}, {Claim: "amr", Contains: "mfa", Level: levelMultiFactor}}},
	"keycloak": {Request: Request{EssentialACR: true}}, // levels have the names the realm gives them, so the rules must be written
}

// signInOnly are providers that say nothing of a second factor.
var signInOnly = []string{"google", "dex"}

// withDefaults fills in the preset's and the defaults.
func (r Requirement) withDefaults() (Requirement, error) {
	if slices.Contains(signInOnly, r.Preset) {
		return r, fmt.Errorf("step-up at %s: %s says nothing of a second factor in its tokens; it can sign people in, but not step up", r.Issuer, r.Preset)
	}
	if r.Preset != "" {
		p, ok := stepUpPresets[r.Preset]
		if !ok {
			return r, fmt.Errorf("step-up at %s: there is no preset %q", r.Issuer, r.Preset)
		}
		if len(r.Assurance) == 0 {
			r.Assurance = p.Assurance
		}
		if len(r.Request.ACRValues) == 0 {
			r.Request.ACRValues = p.Request.ACRValues
		}
		r.Request.EssentialACR = r.Request.EssentialACR || p.Request.EssentialACR
		r.RefuseAMR = append(slices.Clone(p.RefuseAMR), r.RefuseAMR...)
	}
	if r.Request.Prompt == "" {
		r.Request.Prompt = "login"
	}
	if r.Request.MaxAge == nil {
		r.Request.MaxAge = new(int)
	}
	return r, nil
}
