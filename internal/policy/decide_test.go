package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
)

// truth is the role matrix as somebody wrote it down from the design: who may in an active Project, and whether an
// archived one still allows it.
const truth = `
	permission      owner admin operator viewer archived
	read            yes   yes   yes      yes    yes
	run.stop        yes   yes   yes      no     no
	run.retry       yes   yes   yes      no     no
	trigger.pause   yes   yes   yes      no     no
	task.publish    yes   yes   no       no     no
	audit.read      yes   yes   no       no     yes
	project.manage  yes   no    no       no     no
	no.such.thing   no    no    no       no     no`

// readTruth returns a cell by "permission column", and the permissions.
func readTruth() (cells map[string]bool, permissions []string) {
	cells = map[string]bool{}
	lines := strings.Split(strings.TrimSpace(truth), "\n")
	columns := strings.Fields(lines[0])
	for _, line := range lines[1:] {
		row := strings.Fields(line)
		permissions = append(permissions, row[0])
		for i, cell := range row[1:] {
			cells[row[0]+" "+columns[i+1]] = cell == "yes"
		}
	}
	return cells, permissions
}

func TestMatrix(t *testing.T) {
	cells, permissions := readTruth()
	var rows []string
	for _, rule := range policy.Matrix() {
		rows = append(rows, string(rule.Permission))
		if rule.What == "" || !slices.IsSortedFunc(rule.Roles, func(a, b policy.Role) int {
			return slices.Index(policy.Roles(), a) - slices.Index(policy.Roles(), b)
		}) {
			t.Errorf("Matrix() has %+v, want words, and the mightiest first", rule)
		}
		rule.Roles[0] = "nobody" // a copy
	}
	if diff := cmp.Diff(permissions, append(rows, "no.such.thing")); diff != "" {
		t.Errorf("permissions of Matrix() (-want +got):\n%s", diff)
	}
	for _, p := range permissions {
		for _, r := range append(policy.Roles(), "", "root", "OWNER") {
			if got, want := r.May(policy.Permission(p)), cells[p+" "+string(r)]; got != want {
				t.Errorf("%q.May(%s) = %t, want %t", r, p, got, want)
			}
		}
	}
}

func TestDecideAgainstTruth(t *testing.T) {
	cells, permissions := readTruth()
	projects := []string{"lab", "ops", "web"}
	roles := []string{"", "owner", "admin", "operator", "viewer", "root"}
	rapid.Check(t, func(rt *rapid.T) {
		a := policy.Access{Active: rapid.Bool().Draw(rt, "active"), Bindings: map[string]policy.Binding{}}
		for _, p := range projects {
			if rapid.Bool().Draw(rt, "bound in "+p) {
				a.Bindings[p] = policy.Binding{ProjectID: p, Role: policy.Role(rapid.SampledFrom(roles).Draw(rt, "role in "+p)),
					ProjectActive: rapid.Bool().Draw(rt, p+" active"), Version: rapid.Int64Range(1, 9).Draw(rt, "version in "+p)}
			}
		}
		project := rapid.SampledFrom(append(projects, "other", "")).Draw(rt, "project")
		permission := rapid.SampledFrom(permissions).Draw(rt, "permission")

		b := a.Bindings[project]
		cell := func(column string) bool { return cells[permission+" "+column] }
		want := policy.Decision{Allowed: true, Binding: b}
		if !cell(string(b.Role)) {
			want = policy.Decision{Reason: "role_missing", Binding: b}
			for _, r := range []policy.Role{"owner", "admin", "operator", "viewer"} {
				if cell(string(r)) {
					want.Need = append(want.Need, r)
				}
			}
		}
		if !b.ProjectActive && !cell("archived") {
			want = policy.Decision{Reason: "project_archived", Binding: b}
		}
		if !cells["read "+string(b.Role)] {
			want = policy.Decision{Reason: "not_visible"}
		}
		if !a.Active {
			want = policy.Decision{Reason: "user_disabled"}
		}
		if diff := cmp.Diff(want, a.Decide(project, policy.Permission(permission))); diff != "" {
			rt.Errorf("%+v.Decide(%s, %s) (-want +got):\n%s", a, project, permission, diff)
		}
		if visible, read := slices.Contains(a.Visible(), project), a.Decide(project, policy.Read).Allowed; visible != read {
			rt.Errorf("%+v.Visible() has %s: %t, and Decide(read) = %t", a, project, visible, read)
		}
		if !slices.IsSorted(a.Visible()) {
			rt.Errorf("%+v.Visible() = %q, want it sorted", a, a.Visible())
		}
	})
}

func TestReadAccess(t *testing.T) {
	w := newWorld(t)
	anyClock := cmpopts.IgnoreFields(policy.Access{}, "NowMS")
	inLab, inWeb := asks(alice, policy.Owner), asks(alice, policy.Viewer)
	inLab.Project, inWeb.Project = "lab", "web"
	w.grant(asks(alice, policy.Viewer))
	w.grant(asks(alice, policy.Operator))
	w.grant(inLab)
	w.grant(inWeb)
	w.revoke(takes(inWeb))
	w.grant(asks(bob, policy.Admin))

	want := policy.Access{UserID: alice, Active: true, Bindings: map[string]policy.Binding{
		"ops": {ProjectID: "ops", ProjectName: "Operations", ProjectActive: true, ProjectVersion: 7, Role: policy.Operator, Version: 2},
		"lab": {ProjectID: "lab", ProjectName: "Laboratory", ProjectVersion: 2, Role: policy.Owner, Version: 1},
	}}
	if diff := cmp.Diff(want, w.access(alice), anyClock); diff != "" {
		t.Errorf("ReadAccess(alice) (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"lab", "ops"}, w.access(alice).Visible()); diff != "" {
		t.Errorf("Visible() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(policy.Access{UserID: eve, Active: true, Bindings: map[string]policy.Binding{}}, w.access(eve), anyClock); diff != "" {
		t.Errorf("ReadAccess(eve), who has no role (-want +got):\n%s", diff)
	}
	clock := func() int64 { return pgtest.Value[int64](t, w.super, "SELECT "+pg.ClockMS) }
	before := clock()
	if now := w.access(alice).NowMS; now < before || now > clock() {
		t.Errorf("ReadAccess(alice).NowMS = %d, want the database clock, %d or later", now, before)
	}
	if a := w.access(asks(alice, "").MutationID); a.Active || a.Visible() != nil {
		t.Errorf("ReadAccess(nobody) = %+v, want no access", a)
	}
	for _, role := range []string{"ql3_admin", "ql3_run_manager", "ql3_authn", "ql3_console"} {
		q := &counter{Querier: w.db.Pool(t, role)}
		if _, err := policy.ReadAccess(t.Context(), q, alice); err != nil || q.queries != 1 {
			t.Errorf("ReadAccess() as %s = %v after %d queries, want one", role, err, q.queries)
		}
	}
}

// What is taken away is gone with the next reading.
func TestAccessIsReadAnew(t *testing.T) {
	w := newWorld(t)
	r := asks(alice, policy.Operator)
	w.grant(r)
	retry := func() policy.Reason { return w.access(alice).Decide("ops", policy.RetryRun).Reason }
	steps := []struct {
		name string
		do   func()
		want policy.Reason
	}{
		{"granted", func() {}, ""},
		{"archived", func() { w.exec(`UPDATE projects SET status = 'archived' WHERE id = 'ops'`) }, policy.ProjectArchived},
		{"active again", func() { w.exec(`UPDATE projects SET status = 'active' WHERE id = 'ops'`) }, ""},
		{"disabled", func() { w.must(policy.DisableUser(t.Context(), w.admin, alice, byRoot, "")) }, policy.UserDisabled},
		{"enabled", func() { w.must(policy.EnableUser(t.Context(), w.admin, alice, byRoot, "")) }, ""},
		{"made a viewer", func() { w.grant(asks(alice, policy.Viewer)) }, policy.RoleMissing},
		{"revoked", func() { w.revoke(takes(r)) }, policy.NotVisible},
	}
	for _, step := range steps {
		step.do()
		if got := retry(); got != step.want {
			t.Errorf("%s: Decide(ops, run.retry) is refused for %q, want %q", step.name, got, step.want)
		}
	}
}

func (w world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func ExampleRole_May() {
	fmt.Println(policy.Operator.May(policy.RetryRun), policy.Viewer.May(policy.RetryRun))
	// Output: true false
}
