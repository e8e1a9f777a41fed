package idp

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed pages
var files embed.FS

var pages = template.Must(template.ParseFS(files, "pages/*.html"))

// A page is one HTML page; Name says which of its parts are filled.
type page struct {
	Title, Name string
	Text        string
	Login       loginForm
	Account     accountPage
	Next        string // where a form on it leads in the end
}

// A loginForm is either step of signing in.
type loginForm struct {
	ID, Client string
	Username   string
	Accounts   []Account
	Wrong      string
	Passkeys   bool // can be used here at all
	Code       bool // a one-time code is enough
	MayStop    bool // the client takes the password alone, too
}

// An accountPage is what the account that is signed in can see of itself.
type accountPage struct {
	Account
	Secret   string
	Passkeys int
	Name     bool // the provider has a name that a passkey can be bound to
	At       string
	AMR      []string
	ACR      string
}

// policy lets a page load its own style and script, and its forms lead to the client: browsers hold form-action to
// every redirect that follows.
func policy(next string) string {
	to := "'self'"
	if u, err := url.Parse(next); err == nil && u.Host != "" {
		to += " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action " + to +
		"; base-uri 'none'; frame-ancestors 'none'"
}

// show renders the page whole before anything is sent.
func (p *Provider) show(w http.ResponseWriter, status int, shown page) {
	var buf bytes.Buffer
	if err := pages.ExecuteTemplate(&buf, "page", shown); err != nil {
		p.log.Error("identity provider page failed", "page", shown.Name, "err", err)
		http.Error(w, "The page could not be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", policy(shown.Next))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	buf.WriteTo(w) // an error here means that the browser has left
}

func asset(name, kind string) http.HandlerFunc {
	content, err := files.ReadFile("pages/" + name)
	if err != nil {
		panic(err) // a route for a file that is not there
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Write(content)
	}
}
