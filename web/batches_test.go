package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/qinglong/console/internal/pg/pgtest"
	"github.com/qinglong/console/internal/policy"
)

func TestBatchesList(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	has(t, "the list without any", o.get("/batches"), "No batch is here.")
	path, _ := o.freezes(policy.RetryRun, o.failed)
	batch := strings.TrimSuffix(path, "/submit")
	has(t, "one's own that is not submitted", o.get("/batches"), `href="`+batch+`"`, "Retry of 1 Run", "not submitted")
	colleague := signIn(t, o.config, "colleague")
	grant(t, o.Database, colleague, policy.Viewer, "ops")
	theirs := colleague.as(New(o.config))
	hasNot(t, "a colleague's list", get(t, theirs, "/batches"), batch)

	pgtest.Force(t, o.Super(t), `UPDATE ql3.run_batches SET submitted_at_ms = created_at_ms, proof_id = gen_random_uuid()`)
	o.made(batch, "failed")
	has(t, "a colleague's list", get(t, theirs, "/batches"), `href="`+batch+`"`, "Retry of 1 Run", "1 did not succeed", `href="/batches.csv?bom=1"`)
	hasNot(t, "a colleague's own", get(t, theirs, "/batches?by=me"), batch)
	has(t, "the list of Runs", get(t, theirs, "/runs?project=ops"), `href="/batches?project=ops"`)
	has(t, "the JSON", get(t, theirs, "/batches.json"), `"made": 1`, `"succeeded": 0`, `"remaining": 0`)
	if rows := readCSV(t, get(t, theirs, "/batches.csv")); len(rows) != 2 || rows[1][7] != "1" || rows[1][8] != "1" {
		t.Errorf("the CSV is %v, want one batch of one Run", rows)
	}
	others := elsewhere(t, o.Database)
	for _, target := range []string{"/batches", "/batches.json", "/batches.csv", "/batches?project=ops"} {
		if res := get(t, others, target); res.StatusCode != http.StatusOK || strings.Contains(res.body, batch[len("/batches/"):]) {
			t.Errorf("GET %s of another Project's viewer = %d, showing the batch", target, res.StatusCode)
		}
	}
}

// made puts what a batch of one Run made into the database, as it has ended so.
func (o *operator) made(batch, status string) {
	o.t.Helper()
	id := o.retriedTo(o.failed, 10, status)
	pgtest.Force(o.t, o.Super(o.t), `UPDATE ql3.runs SET idempotency_key = 'ql3:run-manual-retry:v1:' || i.mutation_id FROM ql3.run_batch_items i WHERE runs.id = $1 AND i.batch_id::text = $2`,
		id, strings.TrimPrefix(batch, "/batches/"))
}

func TestBatchesPageThrough(t *testing.T) {
	o := newOperator(t, policy.Operator, "ops")
	o.freezes(policy.RetryRun, o.failed)
	pgtest.Force(t, o.Super(t), `INSERT INTO ql3.run_batches SELECT gen_random_uuid(), action, project_id, user_id, words, created_at_ms - n / 2, NULL, NULL FROM ql3.run_batches, generate_series(1, $1::int) n`, pageSize)
	seen, next := map[string]bool{}, "/batches.json?by=me"
	for next != "" && len(seen) <= pageSize+1 {
		var body batchesJSON
		if err := json.Unmarshal([]byte(o.get(next).body), &body); err != nil {
			t.Fatal(err)
		}
		for _, b := range body.Batches {
			seen[b.ID.String()] = true
		}
		next = body.Next
	}
	if len(seen) != pageSize+1 {
		t.Errorf("the pages show %d batches, want %d", len(seen), pageSize+1)
	}
	has(t, "the second page", follow(t, o.handler(), o.get("/batches"), "Older"), "These are the oldest.", ">Newest</a>")
}
