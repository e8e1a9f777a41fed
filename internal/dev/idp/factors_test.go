package idp

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pquerna/otp/totp"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"pgregory.net/rapid"
)

func TestFactors(t *testing.T) {
	tests := []struct {
		name string
		f    factors
		amr  string
		acr  string
	}{
		{"nothing", factors{}, "", ""},
		{"password", factors{Password: true}, "pwd", ACRSingleFactor},
		{"password and code", factors{Password: true, Code: true}, "pwd otp mfa", ACRMultiFactor},
		{"password and a touched key", factors{Password: true, Passkey: true, Bound: true}, "pwd hwk user mfa", ACRHardware},
		{"a key that verified its user", factors{Passkey: true, Bound: true, Verified: true}, "hwk user mfa", ACRHardware},
		{"a touched key", factors{Passkey: true, Bound: true}, "hwk user", ACRSingleFactor},
		{"a passkey that can be copied", factors{Passkey: true, Verified: true}, "swk user mfa", ACRMultiFactor},
		{"a passkey that can be copied, touched", factors{Passkey: true}, "swk user", ACRSingleFactor},
		{"two things held are one kind", factors{Code: true, Passkey: true, Bound: true}, "otp hwk user", ACRSingleFactor},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.Join(test.f.amr(), " "); got != test.amr {
				t.Errorf("amr() = %q, want %q", got, test.amr)
			}
			if got := acrs[test.f.level()]; got != test.acr {
				t.Errorf("acr = %q, want %q", got, test.acr)
			}
		})
	}
}

// TestNeverMoreThanDone holds every acr to what was done, whatever the client asked.
func TestNeverMoreThanDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.Bool()
		f := factors{b.Draw(t, "password"), b.Draw(t, "code"), b.Draw(t, "passkey"), b.Draw(t, "bound"), b.Draw(t, "verified")}
		asked := rapid.SliceOf(rapid.SampledFrom([]string{ACRSingleFactor, ACRMultiFactor, ACRHardware, "gold"})).Draw(t, "essential")
		if got := (demand{essential: asked}).acr(f.level()); levelOf(got) > f.level() {
			t.Errorf("acr() = %q after %+v", got, f)
		}
	})
}

func essential(acr ...string) url.Values {
	return url.Values{"claims": {`{"id_token":{"acr":{"essential":true,"values":["` + strings.Join(acr, `","`) + `"]}}}`}}
}

// codeAt is the account's one-time code of that many seconds from now.
func (t *try) codeAt(name string, seconds int) url.Values {
	code, err := totp.GenerateCode(t.account(name).TOTPSecret, time.Now().Add(time.Duration(seconds)*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return url.Values{"code": {code[:3] + " " + code[3:]}} // as applications show it
}

func TestSecondFactor(t *testing.T) {
	tests := []struct {
		name    string
		ask     url.Values
		code    bool // give it; otherwise go on without
		amr     []string
		acr     string
		mayStop bool
	}{
		{"wished and given", url.Values{"acr_values": {ACRMultiFactor}}, true, []string{"pwd", "otp", "mfa"}, ACRMultiFactor, true},
		{"wished and left", url.Values{"acr_values": {ACRMultiFactor}}, false, []string{"pwd"}, ACRSingleFactor, true},
		{"the stronger of two wishes is none", url.Values{"acr_values": {ACRHardware + " " + ACRMultiFactor}}, true, []string{"pwd", "otp", "mfa"}, ACRMultiFactor, true},
		{"needed and given", essential(ACRMultiFactor), true, []string{"pwd", "otp", "mfa"}, ACRMultiFactor, false},
		{"either needed", essential(ACRHardware, ACRMultiFactor), true, []string{"pwd", "otp", "mfa"}, ACRMultiFactor, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				try := w.ask(test.ask)
				try.signIn("operator")
				if got := strings.Contains(try.page, "/login/enough"); got != test.mayStop {
					t.Fatalf("may go on without = %t, want %t:\n%s", got, test.mayStop, try.page)
				}
				if test.code {
					try.submit("/login/code", try.codeAt("operator", 0))
				} else {
					try.submit("/login/enough", nil)
				}
				got := try.redeem()
				if diff := cmp.Diff(test.amr, got.AMR); diff != "" || got.ACR != test.acr {
					t.Errorf("acr = %q, want %q; amr (-want +got):\n%s", got.ACR, test.acr, diff)
				}
			})
		})
	}
}

// TestNeededMeansNeeded sends the form that the page does not have.
func TestNeededMeansNeeded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(essential(ACRMultiFactor))
		id := hiddenID.FindStringSubmatch(try.page)[1]
		for _, path := range []string{"/login/enough", "/login/code"} { // also before the password
			answer, err := w.browser.PostForm(issuer+path, url.Values{"id": {id}, "code": try.codeAt("operator", 0)["code"]})
			try.see(answer, err)
		}
		try.signIn("operator")
		answer, err := w.browser.PostForm(issuer+"/login/enough", url.Values{"id": {id}})
		try.see(answer, err)
		if len(w.answers) > 0 {
			t.Errorf("the client got %v, want nothing yet", w.answers)
		}
	})
}

func TestMFASessionServesLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(essential(ACRMultiFactor))
		try.signIn("operator")
		try.submit("/login/code", try.codeAt("operator", 0))
		first := try.redeem()
		<-time.After(time.Minute)
		if diff := cmp.Diff(first, w.ask(essential(ACRMultiFactor)).redeem()); diff != "" {
			t.Errorf("the second token (-first +second):\n%s", diff)
		}
		again := w.ask(url.Values{"prompt": {"login"}})
		again.signIn("operator")
		if got := again.redeem(); got.ACR != ACRSingleFactor {
			t.Errorf("acr after a password alone = %q, want %q: the code was given another time", got.ACR, ACRSingleFactor)
		}
	})
}

func TestOneTimeCodes(t *testing.T) {
	tests := []struct {
		name  string
		given []int // codes of that many seconds from now, one after the other, each in a sign-in of its own
		want  string
	}{
		{"the present one", []int{0}, ""},
		{"the one before", []int{-30}, ""},
		{"the next one", []int{30}, ""},
		{"two steps old", []int{-60}, "not the present code"},
		{"two steps early", []int{60}, "not the present code"},
		{"the same twice", []int{0, 0}, "already used"},
		{"an older one after a newer", []int{30, 0}, "already used"},
		{"a newer one after an older", []int{-30, 0}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				<-time.After(12 * time.Second) // into a step, and not near its end
				var last *try
				for _, at := range test.given {
					last = w.ask(url.Values{"acr_values": {ACRMultiFactor}, "prompt": {"login"}})
					last.signIn("operator")
					last.submit("/login/code", last.codeAt("operator", at))
				}
				if test.want == "" && len(w.answers) != 1 || test.want != "" && !strings.Contains(last.page, test.want) {
					t.Errorf("%d answers, want %q on the page:\n%s", len(w.answers), test.want, last.page)
				}
			})
		})
	}
}

func TestCodeSpentAcrossRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		give := func() *try {
			try := w.ask(url.Values{"acr_values": {ACRMultiFactor}, "prompt": {"login"}})
			try.signIn("operator")
			try.submit("/login/code", try.codeAt("operator", 0))
			return try
		}
		give().answer()
		w.start()
		if got := give(); !strings.Contains(got.page, "already used") {
			t.Errorf("the same code after a restart:\n%s", got.page)
		}
	})
}

func TestGuessing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		try := w.ask(essential(ACRMultiFactor))
		try.signIn("operator")
		right := try.codeAt("operator", 0)
		for range maxWrongCodes {
			try.submit("/login/code", url.Values{"code": {"not it"}})
		}
		if !strings.Contains(try.page, "Start again with the password.") || !strings.Contains(try.page, `id="password"`) {
			t.Errorf("after %d wrong codes:\n%s", maxWrongCodes, try.page)
		}
		id := hiddenID.FindStringSubmatch(try.page)[1]
		answer, err := w.browser.PostForm(issuer+"/login/code", url.Values{"id": {id}, "code": right["code"]})
		if try.see(answer, err); len(w.answers) > 0 {
			t.Errorf("the right code, without the password again: the client got %v", w.answers)
		}
	})
}

// FuzzEssentialACR also holds the reader to its purpose: what it returns can be asked of demandOf, which never makes
// an unknown value essential.
func FuzzEssentialACR(f *testing.F) {
	for _, seed := range []string{"", "{", "null", `{"id_token":{"acr":null}}`, essential(ACRHardware).Get("claims"), essential("gold").Get("claims"),
		`{"id_token":{"acr":{"essential":true}}}`, `{"id_token":{"acr":{"value":"gold"}}}`, `{"id_token":{"acr":{"essential":"yes"}}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, claims string) {
		d, err := demandOf(&oidc.AuthRequest{}, claims)
		for _, acr := range d.essential {
			if err != nil || levelOf(acr) == nothing || d.level == nothing {
				t.Errorf("demandOf(%q) = %+v, %v", claims, d, err)
			}
		}
	})
}
