package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/pg/pgtest"
)

// goodRows breaks no CHECK. Foreign keys and triggers are off, so that a case needs one row and no more.
const goodRows = `
SET session_replication_role = replica;
INSERT INTO projects (id, name, created_at_ms, updated_at_ms) VALUES ('p', 'P', 10, 10);
INSERT INTO task_definitions VALUES ('p', 't', 1, 10, 10);
INSERT INTO triggers VALUES ('p', 'g', 1, 10, 10);
INSERT INTO task_definition_revisions (project_id, task_id, revision, content, content_digest, created_at_ms)
    SELECT 'p', 't', 1, c, content_digest('qinglong.task-definition.v1', c), 10
    FROM (VALUES ('{"kind":"task","project":"p","id":"t","name":"T","enabled":true}')) v (c);
INSERT INTO task_execution_revisions (project_id, task_id, task_revision, task_content_digest, content, content_digest, created_at_ms)
    SELECT 'p', 't', 1, 'd', c, content_digest('qinglong.task-execution.v1', c), 10
    FROM (VALUES ('{"executor":"remote_worker","project":"p","task":{"id":"t","revision":1,"digest":"d"}}')) v (c);
INSERT INTO trigger_revisions (project_id, trigger_id, revision, content, content_digest, created_at_ms)
    SELECT 'p', 'g', 1, c, content_digest('qinglong.trigger-definition.v1', c), 10
    FROM (VALUES ('{"kind":"k","project":"p","trigger":"g","enabled":true,"task":{"id":"t","revision":1,"digest":"d"}}')) v (c);
INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, trigger_id, trigger_revision, trigger_content_digest,
        scheduled_for_ms, trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms)
    VALUES ('00000000-0000-7000-8000-000000000001', 'p', 't', 1, 'T', 'e', 'g', 1, 'd', 5, 'cron', 'scheduled', 'queued', 'ql3:cron:v1:g:1:5', 10, 10);
INSERT INTO runs (id, project_id, task_id, task_revision, task_name, task_snapshot_ref, retry_of_run_id, step_up_proof_id, triggered_by,
        trigger_type, execution_origin, status, idempotency_key, created_at_ms, queued_at_ms)
    VALUES ('00000000-0000-7000-8000-000000000002', 'p', 't', 1, 'T', 'e', '00000000-0000-7000-8000-000000000001', gen_random_uuid(), 'u',
        'run_manual_retry', 'manual', 'queued', 'ql3:run-manual-retry:v1:m', 10, 10);
INSERT INTO run_attempts (id, run_id, attempt, status, executor_type, created_at_ms)
    VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 1, 'claimed', 'remote_worker', 10);
INSERT INTO run_events (id, run_id, sequence, type, actor_type, actor_id, created_at_ms)
    VALUES (gen_random_uuid(), '00000000-0000-7000-8000-000000000001', 1, 'run.created', 'scheduler', 'r', 10);
INSERT INTO run_retry_policies VALUES ('00000000-0000-7000-8000-000000000001', 1, 0, 10);
INSERT INTO trigger_schedules (project_id, trigger_id, trigger_revision, enabled, base_at_ms, updated_at_ms) VALUES ('p', 'g', 1, true, 10, 10);
INSERT INTO schedule_events (project_id, trigger_id, trigger_revision, type, created_at_ms) VALUES ('p', 'g', 1, 'skipped', 10);
INSERT INTO replicas VALUES ('r', 'v', 10, 10, 0);
INSERT INTO trigger_pauses (id, project_id, trigger_id, reason, paused_by, paused_at_ms) VALUES (gen_random_uuid(), 'p', 'g', 'why', gen_random_uuid(), 10);
INSERT INTO run_batches (id, action, project_id, user_id, words, created_at_ms) VALUES (gen_random_uuid(), 'run.retry', 'p', gen_random_uuid(), 'why', 10);
INSERT INTO run_batch_items VALUES (gen_random_uuid(), 1, gen_random_uuid(), 'failed', 1, 'd', gen_random_uuid());`

const (
	cron  = ` WHERE trigger_type = 'cron'`
	retry = ` WHERE trigger_type = 'run_manual_retry'`
	claim = `claim_owner = 'r', claim_token = gen_random_uuid(), claim_expires_at_ms = 11`
)

// violations breaks each CHECK of the schema, and nothing but that CHECK and those named in also, which forbid a little more.
var violations = map[string]struct {
	sql  string
	also []string
}{
	"project_id_form":              {sql: `UPDATE projects SET id = 'P'`},
	"project_name_form":            {sql: `UPDATE projects SET name = ''`},
	"project_status_known":         {sql: `UPDATE projects SET status = 'deleted'`},
	"project_version_positive":     {sql: `UPDATE projects SET version = 0`},
	"project_guard_not_negative":   {sql: `UPDATE projects SET guard = -1`},
	"project_created_not_negative": {sql: `UPDATE projects SET created_at_ms = -1`},
	"project_updated_in_order":     {sql: `UPDATE projects SET updated_at_ms = 9`},

	"task_id_form":           {sql: `UPDATE task_definitions SET task_id = 'a b'`},
	"task_updated_in_order":  {sql: `UPDATE task_definitions SET updated_at_ms = 9`},
	"task_revision_positive": {sql: `UPDATE task_definition_revisions SET revision = 0`},
	"task_digest_matches":    {sql: `UPDATE task_definition_revisions SET content = replace(content, '"T"', '"U"')`},
	"task_content_names_itself": {sql: `UPDATE task_definition_revisions SET content = c, content_digest = content_digest('qinglong.task-definition.v1', c)
		FROM (SELECT replace(content, '"id":"t"', '"id":"u"') AS c FROM task_definition_revisions) new`},

	"execution_digest_matches": {sql: `UPDATE task_execution_revisions SET content = content || ' '`},
	"execution_executor_known": {sql: `UPDATE task_execution_revisions SET content = c, content_digest = content_digest('qinglong.task-execution.v1', c)
		FROM (SELECT replace(content, 'remote_worker', 'shell') AS c FROM task_execution_revisions) new`},
	"execution_content_names_its_task": {sql: `UPDATE task_execution_revisions SET task_content_digest = 'e'`},

	"trigger_id_form":           {sql: `UPDATE triggers SET trigger_id = 'a:b'`},
	"trigger_updated_in_order":  {sql: `UPDATE triggers SET updated_at_ms = 9`},
	"trigger_revision_positive": {sql: `UPDATE trigger_revisions SET revision = 0`},
	"trigger_digest_matches":    {sql: `UPDATE trigger_revisions SET content = content || ' '`},
	"trigger_content_names_itself": {sql: `UPDATE trigger_revisions SET content = c, content_digest = content_digest('qinglong.trigger-definition.v1', c)
		FROM (SELECT replace(content, '"trigger":"g"', '"trigger":"h"') AS c FROM trigger_revisions) new`},

	"run_trigger_type_known":          {sql: `UPDATE runs SET trigger_type = 'webhook', retry_of_run_id = NULL, step_up_proof_id = NULL` + retry},
	"run_origin_known":                {sql: `UPDATE runs SET execution_origin = 'dream'` + retry, also: []string{"run_retry_shape"}},
	"run_owner_known":                 {sql: `UPDATE runs SET execution_owner = 'nobody'` + cron},
	"run_status_known":                {sql: `UPDATE runs SET status = 'paused'` + cron},
	"run_version_positive":            {sql: `UPDATE runs SET version = 0` + cron},
	"run_event_sequence_not_negative": {sql: `UPDATE runs SET event_sequence = -1` + cron},
	"run_created_not_negative":        {sql: `UPDATE runs SET created_at_ms = -1` + cron},
	"run_cancel_reason_known":         {sql: `UPDATE runs SET cancel_requested_at_ms = 10, cancel_reason = 'boredom'` + cron},
	"run_error_code_form":             {sql: `UPDATE runs SET error_code = 'Exit Code'` + cron},
	"run_error_summary_bounded":       {sql: `UPDATE runs SET error_summary = repeat('x', 1001)` + cron},
	"run_cron_has_occurrence":         {sql: `UPDATE runs SET trigger_content_digest = NULL` + cron},
	"run_only_cron_has_trigger":       {sql: `UPDATE runs SET scheduled_for_ms = 5` + retry},
	"run_cron_shape":                  {sql: `UPDATE runs SET idempotency_key = 'ql3:cron:v1:g:1:6'` + cron},
	"run_retry_shape":                 {sql: `UPDATE runs SET triggered_by = NULL` + retry},
	"run_retry_has_proof":             {sql: `UPDATE runs SET step_up_proof_id = NULL` + retry},
	"run_terminal_is_finished":        {sql: `UPDATE runs SET status = 'failed'` + cron},
	"run_queued_has_time":             {sql: `UPDATE runs SET queued_at_ms = NULL` + cron},
	"run_running_has_time":            {sql: `UPDATE runs SET status = 'running'` + cron},
	"run_times_in_order":              {sql: `UPDATE runs SET status = 'running', started_at_ms = 9` + cron},
	"run_cancel_is_whole":             {sql: `UPDATE runs SET cancel_requested_at_ms = 10` + cron},
	"run_success_has_no_error":        {sql: `UPDATE runs SET status = 'succeeded', started_at_ms = 10, finished_at_ms = 10, error_code = 'exit_code'` + cron},

	"attempt_number_positive":       {sql: `UPDATE run_attempts SET attempt = 0`},
	"attempt_status_known":          {sql: `UPDATE run_attempts SET status = 'queued'`},
	"attempt_executor_known":        {sql: `UPDATE run_attempts SET executor_type = 'shell'`},
	"attempt_callback_not_negative": {sql: `UPDATE run_attempts SET callback_sequence = -1`},
	"attempt_error_code_form":       {sql: `UPDATE run_attempts SET error_code = '1st'`},
	"attempt_error_summary_bounded": {sql: `UPDATE run_attempts SET error_summary = repeat('x', 1001)`},
	"attempt_lease_is_whole":        {sql: `UPDATE run_attempts SET lease_token = gen_random_uuid(), lease_expires_at_ms = 11`},
	"attempt_terminal_is_finished":  {sql: `UPDATE run_attempts SET finished_at_ms = 10`},
	"attempt_running_has_start":     {sql: `UPDATE run_attempts SET status = 'running'`},
	"attempt_times_in_order":        {sql: `UPDATE run_attempts SET status = 'lost', finished_at_ms = 9`},
	"attempt_exit_code_after_end":   {sql: `UPDATE run_attempts SET exit_code = 0`},
	"attempt_success_has_no_error":  {sql: `UPDATE run_attempts SET status = 'succeeded', started_at_ms = 10, finished_at_ms = 10, error_code = 'exit_code'`},

	"event_sequence_positive": {sql: `UPDATE run_events SET sequence = 0`},
	"event_type_form":         {sql: `UPDATE run_events SET type = 'created'`},
	"event_actor_known":       {sql: `UPDATE run_events SET actor_type = 'ghost'`},
	"event_payload_is_object": {sql: `UPDATE run_events SET payload = '[]'`},
	"retry_policy_attempts":   {sql: `UPDATE run_retry_policies SET max_attempts = 101`},
	"retry_policy_backoff":    {sql: `UPDATE run_retry_policies SET backoff_ms = -1`},

	"schedule_base_not_negative":          {sql: `UPDATE trigger_schedules SET base_at_ms = -1`},
	"schedule_cursor_not_negative":        {sql: `UPDATE trigger_schedules SET next_fire_at_ms = -1`},
	"schedule_state_version_positive":     {sql: `UPDATE trigger_schedules SET state_version = 0`},
	"schedule_claim_version_not_negative": {sql: `UPDATE trigger_schedules SET claim_version = -1`},
	"schedule_blocked_reason_bounded":     {sql: `UPDATE trigger_schedules SET blocked_reason = ''`},
	"schedule_claim_is_whole":             {sql: `UPDATE trigger_schedules SET claim_owner = 'r'`},
	"schedule_claim_expires_later":        {sql: `UPDATE trigger_schedules SET updated_at_ms = 11, ` + claim},
	"schedule_only_enabled_is_claimed":    {sql: `UPDATE trigger_schedules SET enabled = false, ` + claim},

	"schedule_paused_is_not_enabled": {sql: `UPDATE trigger_schedules SET pause_id = gen_random_uuid()`},
	"schedule_catch_up_has_cursor":   {sql: `UPDATE trigger_schedules SET catch_up = true`},

	"batch_action_known":          {sql: `UPDATE run_batches SET action = 'run.forget'`},
	"batch_words_bounded":         {sql: `UPDATE run_batches SET words = ''`},
	"batch_submission_is_whole":   {sql: `UPDATE run_batches SET submitted_at_ms = 10`},
	"batch_item_position_bounded": {sql: `UPDATE run_batch_items SET position = 51`},
	"batch_item_version_positive": {sql: `UPDATE run_batch_items SET run_version = 0`},

	"pause_reason_bounded":      {sql: `UPDATE trigger_pauses SET reason = ''`},
	"pause_resumption_is_whole": {sql: `UPDATE trigger_pauses SET resumed_at_ms = 10`},
	"pause_times_in_order":      {sql: `UPDATE trigger_pauses SET resumed_by = gen_random_uuid(), resumed_at_ms = 9, caught_up = false`},

	"schedule_event_type_known":            {sql: `UPDATE schedule_events SET type = 'forgotten'`},
	"schedule_event_instants_not_negative": {sql: `UPDATE schedule_events SET instants = -1`},
	"schedule_event_reason_bounded":        {sql: `UPDATE schedule_events SET reason = repeat('x', 501)`},
	"schedule_event_subject_is_whole":      {sql: `UPDATE schedule_events SET trigger_revision = NULL`},
	"schedule_event_spell_has_no_subject":  {sql: `UPDATE schedule_events SET type = 'unattended'`},
	"schedule_event_range_is_whole":        {sql: `UPDATE schedule_events SET first_at_ms = 6, last_at_ms = 5`},
	"replica_id_bounded":                   {sql: `UPDATE replicas SET id = ''`},
	"replica_tick_in_order":                {sql: `UPDATE replicas SET last_tick_at_ms = 9`},
	"replica_schema_positive":              {sql: `UPDATE replicas SET schema_version = 0`},
	"schema_floor_is_not_above":            {sql: `UPDATE schema_floors SET floor = version + 1`},
}

// checksOf lists the CHECKs, by name, of the tables that [goodRows] has a row in. Tables of later files are tested beside
// what writes them.
func checksOf(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	tables := map[string]string{}
	for _, name := range pgtest.Column[string](t, conn, `SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid::regclass::text = ANY($1)`, definedTables) {
		tables[name] = pgtest.Column[string](t, conn, `SELECT conrelid::regclass::text FROM pg_constraint WHERE conname = $1 AND connamespace = 'ql3'::regnamespace`, name)[0]
	}
	return tables
}

var definedTables = []string{"projects", "task_definitions", "task_definition_revisions", "task_execution_revisions", "triggers",
	"trigger_revisions", "runs", "run_attempts", "run_events", "run_retry_policies", "trigger_schedules", "trigger_pauses", "run_batches", "run_batch_items", "schedule_events", "replicas", "schema_floors"}

// A CHECK without a case fails, so a new one brings its own.
func TestEveryCheckRefusesWhatItNames(t *testing.T) {
	conn := withGoodRows(t)
	tables := checksOf(t, conn)
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			v, ok := violations[name]
			if !ok {
				t.Fatalf("no case breaks the CHECK %s of %s", name, table)
			}
			if err := try(t, conn, v.sql); !pg.HasCode(err, "23514") || pg.Constraint(err) != name {
				t.Errorf("%s = %v, want it to violate %s", v.sql, err, name)
			}
			without := []string{`ALTER TABLE ` + table + ` DROP CONSTRAINT ` + name}
			for _, other := range v.also {
				without = append(without, `ALTER TABLE `+table+` DROP CONSTRAINT `+other)
			}
			if err := try(t, conn, append(without, v.sql)...); err != nil {
				t.Errorf("%s = %v without %s, want nothing else to be violated", v.sql, err, name)
			}
		})
	}
	for name := range violations {
		if tables[name] == "" {
			t.Errorf("the case for %s is for no CHECK", name)
		}
	}
}

// withGoodRows is a session with every kind of row, foreign keys and triggers off.
func withGoodRows(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t).SuperURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.PgConn().Exec(t.Context(), `SET search_path = ql3;`+goodRows).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return conn
}

// try runs statements in a transaction that it rolls back, and returns the first error. Each must do something.
func try(t *testing.T, conn *pgx.Conn, statements ...string) error {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for _, sql := range statements {
		tag, err := tx.Exec(t.Context(), sql)
		if err != nil {
			return err
		}
		if tag.Update() && tag.RowsAffected() == 0 {
			t.Errorf("%s changes no row", sql)
		}
	}
	return nil
}

// A generated name, such as runs_check1, says nothing to an operator.
func TestEveryCheckIsNamed(t *testing.T) {
	conn := withGoodRows(t)
	generated := pgtest.Column[string](t, conn, `SELECT conname FROM pg_constraint WHERE connamespace = 'ql3'::regnamespace AND contype = 'c' AND conname ~ '_check[0-9]*$'`)
	if len(generated) > 0 {
		t.Errorf("CHECKs with generated names %v, want none", generated)
	}
}
