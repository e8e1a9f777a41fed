// Package oidc knows who is at the browser: sign-in at an OpenID provider, the sessions that begin there, the users they
// belong to, and the identity an SSO proxy asserts.
//
// # Sign-in
//
//	Start ──► row in auth_transactions ──► provider ──► Callback: spend the row, then look at the answer
//
// A callback first spends its transaction, by one statement that only one caller can win, and only then reads what the
// provider sent, errors included. The database clock of that statement is the one by which everything in the token is
// judged. State and nonce are kept hashed; the PKCE verifier is derived from the browser's binder cookie and the
// transaction's id and is kept nowhere, so that a copy of the table redeems nothing.
//
// go-oidc verifies signature, algorithm, issuer, audience and expiry, and reads claims whatever their case. So the
// payload is first decoded here by exact name, and refused when a name that is read is there twice or in another case.
//
// # Sessions
//
// The cookie store (scs) holds the id of a row in console_sessions and a generation, and is never believed: its writes
// are last-writer-wins, so that a request in flight can write a session back that was just destroyed. The row is read on
// every request, by the database clock, and decides. Ending a session is one UPDATE of that row that nothing undoes.
//
// # Refusals
//
// What is refused is a [*Refusal]: its kind is a stable word, its sentences hold nothing of a token, and its audit row
// was written before it is returned, except that of a proxy's identity, which comes before anything is limited. Any other
// error is the database's.
package oidc
