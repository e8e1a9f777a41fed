// Package catalog holds what may run and when: Tasks, Triggers, and their
// immutable, digest-bound revisions.
//
// A definition reaches the database by one way only: a manifest is read whole,
// every mistake in it is reported with its file, line and field, and only a
// manifest without mistakes is published, one serializable transaction a
// Project. Content that has not changed makes no revision and writes nothing.
//
// A revision is its content: canonical JSON (RFC 8785) with a SHA-256 digest
// over exactly the stored bytes. Whoever decides something from a revision
// calls [Verify] on those bytes first.
//
// No value of an environment variable, and nothing else that may be a secret,
// appears in an error, a diff or a log line of this package.
package catalog
