// Package e2e holds the built binary to what is promised of it, from outside: real processes, a real PostgreSQL, HTTP.
//
// It imports nothing of the product but fixtures. What a test here knows of the console is what an operator can know:
// its commands, its listeners and its tables. What is expected is computed anew, never by the code under test.
//
// The walks (walks_*, build tag walks, `make e2e`) go through it in a real browser, signed in by real providers and behind
// real proxies, which run with the very files that docs/sso.md gives.
//
// They hold every page to axe-core's rules in both languages, both themes and at both ends of the widths, each of them with
// each other, to 60,000 bytes and six requests, and to standing still while updates arrive. `make screenshots` takes the pictures in docs/.
//
// The failovers (ha_*, build tag ha, `make ha`) take the primary away under two replicas, again and again. What they show
// is in docs/proof.md.
//
// The torture (torture_*, build tag torture, `make torture`) breaks everything at once, by a plan made from a seed, and lets
// the package checker account for every expected occurrence. It is in docs/proof.md too.
//
// The benchmarks are tests as well: what they measure must also be right. See docs/benchmarks.md.
package e2e
