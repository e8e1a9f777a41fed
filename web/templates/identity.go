package templates

import "github.com/qinglong/console/internal/text"

// Who is the signed-in user, in the navigation. It is empty when nobody is.
type Who struct {
	Name    string
	URL     string // of their own page
	SignOut string // where the form goes that signs out
}

// Notice is a page of few words and one thing to do next: of signing in and out.
type Notice struct {
	Page
	Sentences []Sentence
	Warning   text.Text
	Pairs     []Pair
	Action    string // where its form goes, if it has one
	Button    text.Text
	Links     []Link
	Top       bool // its links leave the frame it is in
}

// Profile is what a user is told about themselves.
type Profile struct {
	Page
	Name       string
	Identity   []Pair
	Roles      []Role
	NoRoles    Empty
	Command    string // that an owner runs to give a first role
	Sessions   []Device
	SignOut    string
	Everywhere string // where the form goes that ends every session
	Proofs     []LiveProof
	Links      []Link
}

// Role is what a user is in one Project.
type Role struct {
	Project Link
	ID      string
	Role    text.Text
	May     text.Text // what it allows
	Note    text.Text
}

// Device is one live session.
type Device struct {
	Agent   text.Text
	Where   text.Text
	Began   Instant
	Seen    Instant
	Ends    Instant // if nothing is done in it
	Current bool
}
