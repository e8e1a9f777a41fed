package main

import "slices"

const (
	connectionsFile = "cmd/console/connections.go"
	serverFile      = "cmd/console/server.go"
	limitFile       = "internal/oidc/limit.go"
	middlewareFile  = "web/middleware.go"
)

// overload is what bounds what others cost the console: their connections, headers, bodies, statements, sign-ins and streams.
var overload = slices.Concat(
	in(connectionsFile, "", "",
		mutation{what: "a limit of connections", from: "if len(c.open) <= c.limit {", to: "if true {", test: "TestTooManyConnections|TestTooManyRequests"},
		mutation{what: "closing the one that has rested longest", from: "longest := c.resting.Front().Value.(net.Conn)", to: "longest := c.resting.Back().Value.(net.Conn)", test: "TestTooManyConnections"},
		mutation{what: "leaving alone what is being answered", from: "if r.Body == nil || r.Body == http.NoBody {\n\t\t\tc.works(conn)", to: "if r.Body == nil || r.Body == http.NoBody {", test: "TestTooManyRequests"},
		mutation{what: "leaving alone a form that has come whole", from: "if err == io.EOF {\n\t\tb.whole()", to: "if err == io.EOF {", test: "TestTooManyConnections"},
		mutation{what: "resting again after an answer", from: "defer c.rests(conn)", to: "", test: "TestTooManyConnections"},
		mutation{what: "a form that arrives resting from then on", from: "c.resting.MoveToBack(e)", to: "", test: "TestFormThatArrivesIsNotTheOldest"},
		mutation{what: "forgetting what is closed", from: "defer c.mu.Unlock()\n\t\tc.forget(conn)", to: "defer c.mu.Unlock()", test: "TestClosedConnectionsTakeNoRoom"},
	),
	in(serverFile, "", "TestConnectionsEnd",
		mutation{what: "bounding the server's connections", from: "newConnections(maxConnections, s.crowded).bound(server)", to: "newConnections(1<<30, s.crowded).bound(server)", test: "TestServerIsBounded"},
		mutation{what: "an end of waiting for a header", from: "ReadHeaderTimeout: 5 * time.Second, ", to: ""},
		mutation{what: "an end of waiting for a body", from: "ReadTimeout: 15 * time.Second, ", to: ""},
		mutation{what: "an end of waiting for a reader", from: "WriteTimeout: answer,", to: ""},
		mutation{what: "an end of waiting for another request", from: "IdleTimeout: 2 * time.Minute, ", to: "IdleTimeout: 24 * time.Hour, "},
		mutation{what: "a limit of a header", from: "MaxHeaderBytes: 32 << 10, ", to: "", test: "TestLargeHeaderIsRefused"},
	),
	in(middlewareFile, "", "TestLargeBodyIsRefused",
		mutation{what: "a limit of a body that says how long it is", from: "r.ContentLength > bodyLimit", to: "false"},
		mutation{what: "a limit of a body that does not", from: "r.Body = http.MaxBytesReader(c.Response(), r.Body, bodyLimit)", to: ""},
	),
	in("cmd/console/databases.go", "", "TestStatementsEnd",
		mutation{what: "an end of every statement", from: "StatementTimeout: statementTimeout, ", to: ""},
	),
	in("internal/pg/pool.go", "cmd/console", "TestStatementsEnd",
		mutation{what: "telling the server when a statement ends", from: `"statement_timeout":                   milliseconds(c.StatementTimeout),`, to: ""},
	),
	in(limitFile, "", "",
		mutation{what: "a limit of an address", from: "l.peers.take(network(peer), now); wait > 0", to: "l.peers.take(network(peer), now); false", test: "TestLimiter"},
		mutation{what: "a limit of a browser", from: "l.browsers.take(binder, now); wait > 0", to: "l.browsers.take(binder, now); false", test: "TestLimiter"},
		mutation{what: "a limit of everybody", from: "return wait, wait == 0", to: "return wait, true", test: "TestLimiterOfEverybody"},
		mutation{what: "a host of IPv6 being one", from: "return netip.PrefixFrom(a.WithZone(\"\"), 64).Masked().String()", to: "return peer", test: "TestNetwork"},
		mutation{what: "a limit of what the limits keep", from: "if b.new == nil || len(b.new) >= maxBuckets {", to: "if b.new == nil {", test: "TestLimiterIsBounded"},
		mutation{what: "keeping a limit that is in use", from: "l := b.old[key]", to: "var l *rate.Limiter", test: "TestLimiterIsBounded"},
	),
	in(middlewareFile, "", "TestSignInIsLimited",
		mutation{what: "asking the limits", from: "if s.routeOf(c).provider {\n\t\t\tif err", to: "if false {\n\t\t\tif err"},
	),
)
