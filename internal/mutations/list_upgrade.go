package main

import "slices"

// upgrading is what keeps a replica from a schema that is not made for it, and lets it work on one that is.
var upgrading = slices.Concat(
	in("internal/pg/gates.go", "", "TestCheckSchema",
		mutation{what: "no schema that is too old", from: "case got < s.Version:", to: "case false:"},
		mutation{what: "no schema that takes newer consoles alone", from: "if floor > s.Version {", to: "if false {"},
	),
	in("internal/pg/privileges.go", "", "TestCheckPrivilegesOnANewerSchema",
		mutation{what: "ignoring what a newer schema has besides", from: "if version > s.Version {", to: "if version < 0 {"},
		mutation{what: "comparing what is known of a newer schema", from: "case slices.Contains(s.Objects, object) || !ofObjects(verb, object):", to: "case false:"},
		mutation{what: "comparing the columns of a newer schema", from: "case len(columns) > 0 && ofColumns(verb):", to: "case false:"},
	),
	in("internal/scheduler/lifecycle.go", "", "",
		mutation{what: "noticing a floor that rises", from: "s.Schema.Takes(p.Floor)", to: "error(nil)", test: "TestARaisedFloorIsNoticedByTheHeartbeat"},
		mutation{what: "noticing that a column is gone", from: ", pgerrcode.UndefinedTable, pgerrcode.UndefinedColumn, pgerrcode.UndefinedFunction", to: "", test: "TestAMissingColumnIsTold"},
	),
	in("cmd/console/upgrade.go", "", "",
		mutation{what: "asking before replicas are stopped", from: "if !f.WithdrawReplicas {", to: "if false {", test: "TestUpIsRefusedWhileItWouldStopAReplica|TestDownIsRefusedUnderAReplica"},
		mutation{what: "waiting for what was stopped", from: "r.LastTickMS > seen", to: "seen > 0", test: "TestUpWaitsForWhatHasStopped"},
	))
