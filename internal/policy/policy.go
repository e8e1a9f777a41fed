// Package policy says who may see and do what in which Project, and keeps the record of what was allowed and denied.
//
// # Default deny
//
// A User may do in a Project what the newest version of its role binding there says and nothing else. Groups, claims and
// earlier versions grant nothing. [ReadAccess] reads that in one query on every request, and no [Access] outlives the
// request it was read for: what was revoked, disabled or archived is gone with the next one.
//
// # Bindings are facts
//
// A binding is never changed: [Grant] and [Revoke] append the next version, once for each mutation id, and the audit row
// with it. Each also raises the Project's guard. A serializable transaction that waits for the Project row, such as a
// retry's, then fails with 40001 and starts again; if the row had only been locked, it would go on with what it had seen
// before the wait.
//
// # The audit
//
// An audit row is written in the transaction that decides ([WriteAudit] takes the transaction). Nobody can change one.
package policy

import "slices"

// Role is what a User is in a Project.
type Role string

// The roles, the mightiest first.
const (
	Owner    Role = "owner"
	Admin    Role = "admin"
	Operator Role = "operator"
	Viewer   Role = "viewer"
)

// Permission names one thing that may be done in a Project.
type Permission string

// The permissions.
const (
	Read          Permission = "read"
	StopRun       Permission = "run.stop"
	RetryRun      Permission = "run.retry"
	PauseTrigger  Permission = "trigger.pause"
	Publish       Permission = "task.publish"
	ReadAudit     Permission = "audit.read"
	ManageProject Permission = "project.manage"
)

// Rule is one row of the role matrix.
type Rule struct {
	Permission Permission
	What       string // completes "may …"
	Changes    bool   // an archived Project, which is read-only, refuses it
	Roles      []Role // who may, the mightiest first
}

// matrix is the whole of what roles may do. What is not here, nobody may.
var matrix = []Rule{
	{Read, "see its Tasks, Triggers, Schedules and Runs", false, []Role{Owner, Admin, Operator, Viewer}},
	{StopRun, "ask a Run to stop", true, []Role{Owner, Admin, Operator}},
	{RetryRun, "retry a Run that has ended", true, []Role{Owner, Admin, Operator}},
	{PauseTrigger, "pause and resume a Trigger", true, []Role{Owner, Admin, Operator}},
	{Publish, "publish Tasks and Triggers", true, []Role{Owner, Admin}},
	{ReadAudit, "read its audit", false, []Role{Owner, Admin}},
	{ManageProject, "rename, archive and grant roles in it", true, []Role{Owner}},
}

// Matrix returns a copy of the role matrix, for tests and documents.
func Matrix() []Rule {
	rules := slices.Clone(matrix)
	for i := range rules {
		rules[i].Roles = slices.Clone(rules[i].Roles)
	}
	return rules
}

// Roles returns every role, the mightiest first.
func Roles() []Role { return []Role{Owner, Admin, Operator, Viewer} }

// May reports whether role r has permission p in an active Project. An unknown role or permission may nothing.
func (r Role) May(p Permission) bool { return slices.Contains(p.rule().Roles, r) }

// rule is p's row of the matrix. One that is not there changes something and is nobody's.
func (p Permission) rule() Rule {
	for _, rule := range matrix {
		if rule.Permission == p {
			return rule
		}
	}
	return Rule{Permission: p, Changes: true}
}

// A Mistake is wrong input: nothing was done, and the sentence says what to write instead.
type Mistake string

func (m Mistake) Error() string { return string(m) }
