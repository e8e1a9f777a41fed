// Package idp is the OpenID provider of `console dev`: on loopback, with five accounts whose passwords anyone who may
// read the state directory knows. It exists so that signing in and stepping up can be tried, tested and shown without
// an outside provider.
//
// It never says more than it saw. What a token claims is computed from what was done in one sitting, never from what
// was asked for:
//
//	done                                      amr                              acr
//	password                                  pwd                              urn:qinglong:dev:1fa
//	password, one-time code                   pwd otp mfa                      urn:qinglong:dev:mfa
//	passkey that verified its user            hwk user mfa                     urn:qinglong:dev:hardware
//	password, passkey                         pwd hwk user mfa                 urn:qinglong:dev:hardware
//	passkey that did not verify its user      hwk user                         urn:qinglong:dev:1fa
//
// A passkey that can be copied to other devices says swk instead of hwk, and then mfa is the most it gives. That a key
// is bound to a device is the authenticator's word; no attestation is asked for.
//
// auth_time is the second in which the last factor was proved. Nothing else moves it, and it is later for every sign-in
// of an account than for the one before, so that a client can tell a new authentication from an old one. A session
// that is too old or too weak for a request counts for nothing: everything is asked for again, so that one auth_time
// is true of all of it.
//
// What a client may ask: prompt (login, select_account, none), max_age, login_hint, id_token_hint, acr_values (the
// person may go on with less, and the token then says less) and claims with an essential acr (the person may not).
// Only the authorization code flow with PKCE S256 is offered, and every answer, errors too, carries iss (RFC 9207).
// Signing out here tells every client that took part, over the back channel, before the browser goes on.
//
// A one-time code's secret is on the account page and in dev.json. That makes it convenient, not independent.
package idp
