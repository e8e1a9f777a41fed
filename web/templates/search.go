package templates

import "github.com/qinglong/console/internal/text"

// Search is what a text was found in.
type Search struct {
	Page
	Form   FilterForm
	Text   string
	Groups []HitGroup // those with hits
	Runs   Link       // of everything that was found
	More   text.Text
	Empty  Empty
}

// HitGroup are the hits of one kind, the best first.
type HitGroup struct {
	ID    string
	Title text.Text
	Hits  []Hit
}

// Hit is one thing that was found.
type Hit struct {
	Link   Link
	Mono   bool // it is an id
	Status Status
	Note   text.Text
	Held   Status // of its Trigger, if somebody holds it back
	At     Instant
	Also   Link
}
