package oidc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/oauth2"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

const (
	forStepUp     purpose = "step_up"
	forStepUpTest purpose = "step_up_test"
	actionStepUp          = "session.step_up"
)

// StepUpConfig is what step-up needs. All fields are required.
type StepUpConfig struct {
	Issuers     []StepUpIssuer // in the order of preference: the first that can be reached is used
	Authn       *pgxpool.Pool  // role ql3_authn
	Cookies     Cookies
	RedirectURL string // of the step-up callback, which is not the sign-in's
	Log         *slog.Logger
}

// StepUpIssuer is a provider and what it must send. It may be another client than the sign-in's, and should be.
type StepUpIssuer struct {
	Provider    *Provider
	Requirement Requirement
}

// StepUp makes proofs: a fresh multi-factor sign-in for one purpose.
type StepUp struct{ config StepUpConfig }

// NewStepUp makes it, and refuses a requirement that would let a single factor through.
func NewStepUp(c StepUpConfig) (*StepUp, error) {
	var errs []error
	for i := range c.Issuers {
		r, err := c.Issuers[i].Requirement.withDefaults()
		if err == nil {
			err = r.Check()
		}
		c.Issuers[i].Requirement = r
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &StepUp{config: c}, nil
}

// Status is nil when one of the issuers can be reached.
func (s *StepUp) Status() error {
	_, _, err := s.reachable()
	return err
}

func (s *StepUp) reachable() (StepUpIssuer, *metadata, error) {
	var last error = errNotDiscovered
	for _, i := range s.config.Issuers {
		m, err := i.Provider.known()
		if err == nil && i.Provider.Status() == nil {
			return i, m, nil
		}
		last = err
		if err == nil {
			last = i.Provider.Status()
		}
	}
	if refusal, ok := errors.AsType[*Refusal](last); ok {
		return StepUpIssuer{}, nil, refusal
	}
	return StepUpIssuer{}, nil, refuse(ProviderUnavailable, text.Of("No identity provider for a step-up can be reached.")).because(last)
}

// stepUpAsked is what a step-up transaction was begun for.
type stepUpAsked struct {
	kind    purpose
	session *uuid.UUID
	user    *uuid.UUID
	purpose policy.Purpose
	words   string
}

func (a *stepUpAsked) fields() []any {
	return []any{&a.kind, &a.session, &a.user, &a.purpose.Action, &a.purpose.ProjectID, &a.purpose.Items, &a.purpose.Batch, &a.words}
}

// Ask is what a step-up is started for, from the page of the Run. Without a purpose it is a test, which makes no proof.
type Ask struct {
	Session Session
	Purpose policy.Purpose
	Words   string // the reason, kept through the step-up
	Route   Route  // where the user lands afterwards
	Client  Client
}

// Start begins a step-up for the browser that holds binder and returns the provider's URL. The error is a [*Refusal]
// when no provider can be reached.
func (s *StepUp) Start(ctx context.Context, binder string, a Ask) (_ string, err error) {
	defer pg.Wrap(&err, "StepUp.Start()")
	issuer, m, err := s.reachable()
	if err != nil {
		return "", s.denied(ctx, a.Session.Actor(a.Client), a.Purpose, err)
	}
	if binder == "" {
		return "", errors.New("a transaction without a binder is anybody's")
	}
	t, err := beginStepUp(ctx, s.config.Authn, binder, issuer.Provider, a)
	if err != nil {
		return "", err
	}
	return issuer.Provider.authURL(m, s.config.RedirectURL, t, issuer.Requirement.Request.options(a.Session)...), nil
}

// options ask for what the requirement wants. The answer is judged by what comes back alone.
func (r Request) options(s Session) []oauth2.AuthCodeOption {
	list := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("prompt", r.Prompt), oauth2.SetAuthURLParam("max_age", strconv.Itoa(*r.MaxAge))}
	if hint := cmp.Or(s.Email, s.Subject); hint != "" {
		list = append(list, oauth2.SetAuthURLParam("login_hint", hint))
	}
	if len(r.ACRValues) > 0 {
		list = append(list, oauth2.SetAuthURLParam("acr_values", strings.Join(r.ACRValues, " ")))
	}
	if r.EssentialACR && len(r.ACRValues) > 0 {
		claim, _ := json.Marshal(map[string]any{"id_token": map[string]any{"acr": map[string]any{"essential": true, "values": r.ACRValues}}}) // of strings alone
		list = append(list, oauth2.SetAuthURLParam("claims", string(claim)))
	}
	return list
}

func beginStepUp(ctx context.Context, q pg.Querier, binder string, p *Provider, a Ask) (_ begun, err error) {
	encoded, err := a.Route.encode()
	if err != nil {
		return begun{}, err
	}
	kind, action, project, items := forStepUp, &a.Purpose.Action, &a.Purpose.ProjectID, &a.Purpose.Items
	if len(a.Purpose.Items) == 0 {
		items = nil
	}
	if a.Purpose.Subject() == uuid.Nil {
		kind, action, project = forStepUpTest, nil, nil
	}
	t := begun{binder: binder, state: random(), nonce: random()}
	err = q.QueryRow(ctx, `
		WITH clock AS MATERIALIZED (SELECT `+pg.ClockMS+` AS ms)
		INSERT INTO auth_transactions (id, kind, state_hash, nonce_hash, binder_hash, issuer, client_id, route, created_at_ms, expires_at_ms,
			session_id, user_id, action, project_id, purpose, words, batch_id)
		SELECT gen_random_uuid(), $1, $2, $3, $4, $5, $6, $7, ms, ms + $8, $9, $10, $11, $12, $13, $14, nullif($15, '00000000-0000-0000-0000-000000000000'::uuid) FROM clock
		RETURNING id`,
		kind, hash(t.state), hash(t.nonce), hash(binder), p.Issuer(), p.ClientID(), encoded, transactionMS, a.Session.ID, a.Session.UserID,
		action, project, items, a.Words, a.Purpose.Batch).Scan(&t.id)
	if err != nil {
		return begun{}, err
	}
	return t, trim(ctx, q, binder)
}

// Stepped is a step-up that came back: a proof whose cookie was set, or, of a test, what the provider sent.
type Stepped struct {
	Proof *policy.Proof // nil of a test
	Route Route
	Test  *Report
}

// Report is what a test found.
type Report struct {
	Issuer, ClientID string
	ACR              string
	AMR, ACRS        []string
	AuthTimeS        int64
	AgeS             int64
	Level            string // "" when nothing was strong enough
	Rules            []Judged
	Problem          *Refusal // what would have refused a proof
}

// Callback spends the transaction before it looks at anything, verifies everything the provider sent, and makes the
// proof while it holds the live session. The error is a [*Refusal] unless it is the database's; the session is as it was.
func (s *StepUp) Callback(ctx context.Context, w http.ResponseWriter, binder string, answer url.Values, session Session, c Client) (_ Stepped, err error) {
	defer pg.Wrap(&err, "StepUp.Callback()")
	t, err := spend(ctx, s.config.Authn, binder, single(answer, "state"), forStepUp, forStepUpTest)
	if err != nil {
		return Stepped{}, s.denied(ctx, session.Actor(c), policy.Purpose{}, err)
	}
	out, err := s.complete(ctx, w, binder, answer, t, session, c)
	if err != nil {
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			refusal.Route, refusal.Words = &t.route, t.stepUp.words
		}
		return Stepped{}, s.denied(ctx, session.Actor(c), t.stepUp.purpose, err)
	}
	out.Route = t.route
	return out, nil
}

func (s *StepUp) complete(ctx context.Context, w http.ResponseWriter, binder string, answer url.Values, t spent, session Session, c Client) (Stepped, error) {
	if t.stepUp.session == nil || *t.stepUp.session != session.ID || t.stepUp.user == nil || *t.stepUp.user != session.UserID {
		return Stepped{}, refuse(SessionEnded, text.Of("The step-up was begun in a session that is not the one you have now."))
	}
	i := slices.IndexFunc(s.config.Issuers, func(i StepUpIssuer) bool {
		return i.Provider.Issuer() == t.issuer && i.Provider.ClientID() == t.clientID
	})
	if i < 0 {
		return Stepped{}, refuse(UnknownState, text.Of("The answer belongs to a provider or client that is no longer configured."))
	}
	issuer := s.config.Issuers[i]
	token, err := issuer.Provider.complete(ctx, s.config.RedirectURL, binder, answer, t)
	if err != nil {
		return Stepped{}, err
	}
	a, trace, problem := issuer.assess(token, t, session)
	if t.stepUp.kind == forStepUpTest {
		return Stepped{Test: report(a, trace, t, problem)}, nil
	}
	if problem != nil {
		return Stepped{}, problem
	}
	proof, err := s.prove(ctx, w, t, a, issuer.joinKey(token, session), session, c)
	return Stepped{Proof: proof}, err
}

// joinKey is what joins a step-up at another issuer to the session's user, and "" where the subject does.
func (i StepUpIssuer) joinKey(c claims, session Session) string {
	if i.Provider.Issuer() == session.Issuer {
		return ""
	}
	return c.joinKey(i.Provider.config.JoinClaim) // sameUser has seen that it is there
}

// assess judges a verified token: who, how strong, and how fresh. What can be said is said even when it is refused.
func (i StepUpIssuer) assess(c claims, t spent, session Session) (a policy.Assurance, trace []Judged, err error) {
	a = policy.Assurance{Issuer: i.Provider.Issuer(), ClientID: i.Provider.ClientID(), SecondFactor: i.Requirement.SecondFactor}
	a.Subject, _ = c.identifier("sub")
	a.AuthTimeS, _ = c.authTime()
	s, err := readSent(c)
	a.ACR, a.AMR, a.ACRS = s.acr, s.amr, s.acrs
	if err != nil {
		return a, nil, err
	}
	a.Level, trace, err = i.Requirement.judge(s)
	if who := i.sameUser(c, a, session); who != nil {
		return a, trace, who
	}
	if err != nil {
		return a, trace, err
	}
	if err := i.checkPurpose(c); err != nil {
		return a, trace, err
	}
	return a, trace, fresh(c, t)
}

// sameUser wants the session's own issuer and subject. Another issuer is joined by the configured claim, whose value
// the session's user brought at sign-in; that comparison needs the user's row and is made in [StepUp.prove].
func (i StepUpIssuer) sameUser(c claims, a policy.Assurance, session Session) error {
	if a.Issuer == session.Issuer {
		if a.Subject != session.Subject {
			return refuse(WrongSubject, text.Of("Somebody else signed in at the provider than is signed in here."))
		}
		return nil
	}
	if i.Provider.config.JoinClaim == "" {
		return refuse(WrongSubject, text.Of("The provider of the step-up is another one than that of your session, and no claim joins the two."))
	}
	if c.joinKey(i.Provider.config.JoinClaim) == "" {
		return refuse(WrongSubject, text.Of("The provider did not send the claim that says who you are here, or sent an address that it has not verified."))
	}
	return nil
}

func (i StepUpIssuer) checkPurpose(c claims) error {
	name, want, _ := strings.Cut(i.Requirement.PurposeClaim, "=")
	if name == "" {
		return nil
	}
	if got, _ := c.text(name); got != want {
		return refuse(BadToken, text.Of("The token was not made for run management: its %s is not %s.", name, strconv.Quote(want)))
	}
	return nil
}

// fresh judges auth_time and only auth_time: an integer in seconds, made for this transaction, not in the future, and
// young enough for a proof to live at all. Whether it is newer than any accepted before is judged over the user's row.
func fresh(c claims, t spent) error {
	at, ok := c.authTime()
	switch {
	case !ok:
		return refuse(NoAuthTime, text.Of("The token does not say when you authenticated."))
	case at*1000 < t.begunAtMS-futureSkew.Milliseconds():
		return refuse(TooOld, text.Of("You authenticated before this was begun."))
	case at*1000 > t.spentAtMS+futureSkew.Milliseconds():
		return refuse(BadToken, text.Of("The token says that you authenticated in the future: the provider's clock and the database's are more than a minute apart."))
	case at*1000+policy.ProofLifetimeMS <= t.spentAtMS:
		return refuse(TooOld, text.Of("You authenticated more than five minutes ago."))
	}
	return nil
}

func report(a policy.Assurance, trace []Judged, t spent, problem error) *Report {
	r := &Report{Issuer: a.Issuer, ClientID: a.ClientID, ACR: a.ACR, AMR: a.AMR, ACRS: a.ACRS, AuthTimeS: a.AuthTimeS, Level: a.Level, Rules: trace}
	if a.AuthTimeS > 0 {
		r.AgeS = t.spentAtMS/1000 - a.AuthTimeS
	}
	r.Problem, _ = errors.AsType[*Refusal](problem)
	return r
}

// prove makes the proof in one transaction that holds the live session, and moves the user's newest auth_time on.
func (s *StepUp) prove(ctx context.Context, w http.ResponseWriter, t spent, a policy.Assurance, join string, session Session, c Client) (*policy.Proof, error) {
	secret := random()
	proof := &policy.Proof{ID: uuid.New(), TransactionID: t.id, SessionID: session.ID, UserID: session.UserID, Purpose: t.stepUp.purpose,
		Words: t.stepUp.words, Assurance: a, CookieHash: hash(secret)}
	err := pg.InTx(ctx, s.config.Authn, func(tx pgx.Tx) error {
		if err := holdLive(ctx, tx, session); err != nil {
			return err
		}
		if err := advanceAuthTime(ctx, tx, session.UserID, a, join); err != nil {
			return err
		}
		if err := policy.InsertProof(ctx, tx, proof); err != nil {
			return err
		}
		return policy.WriteAudit(ctx, tx, stepUpEvent(session.Actor(c), policy.Allowed, proof.Purpose, proof))
	})
	if err != nil {
		return nil, err
	}
	s.config.Cookies.WriteFor(w, proofCookie(proof.Purpose.Action, proof.Purpose.Subject()), proof.ID.String()+"."+secret, policy.ProofLifetimeMS*time.Millisecond)
	return proof, nil
}

// holdLive holds the unrevoked session row until tx ends, so that it is not signed out between this and the proof.
func holdLive(ctx context.Context, tx pgx.Tx, session Session) error {
	var live bool
	err := tx.QueryRow(ctx, `SELECT revoked_at_ms IS NULL AND expires_at_ms > `+pg.ClockMS+` FROM console_sessions WHERE id = $1 FOR SHARE`, session.ID).Scan(&live)
	if err == nil && !live {
		return refuse(SessionEnded, text.Of("Your session has ended meanwhile."))
	}
	return err
}

// advanceAuthTime accepts an authentication only if it is later than every one accepted before, of a sign-in or a proof.
// A join key, if there is one, must be the one that the user brought at sign-in.
func advanceAuthTime(ctx context.Context, tx pgx.Tx, user uuid.UUID, a policy.Assurance, join string) error {
	var newest int64
	var active, same bool
	err := tx.QueryRow(ctx, `
		SELECT u.status = 'active', $4 = '' OR coalesce(u.join_key = $4, false), greatest(CASE WHEN u.issuer = $2 THEN coalesce(u.last_auth_time_s, 0) ELSE 0 END,
			coalesce((SELECT max(p.auth_time_s) FROM step_up_proofs p WHERE p.user_id = u.id AND p.issuer = $2 AND p.subject = $3), 0))
		FROM users u WHERE u.id = $1 FOR UPDATE OF u`, user, a.Issuer, a.Subject, join).Scan(&active, &same, &newest)
	switch {
	case err != nil:
		return err
	case !active:
		return refuse(Disabled, text.Of("This account is disabled."))
	case !same:
		return refuse(WrongSubject, text.Of("Somebody else signed in at the provider than is signed in here."))
	case a.AuthTimeS <= newest:
		return refuse(NotNew, text.Of("This authentication was accepted before; it is not a new one."))
	}
	_, err = tx.Exec(ctx, `UPDATE users SET last_auth_time_s = $2, updated_at_ms = greatest(updated_at_ms, `+pg.ClockMS+`) WHERE id = $1 AND issuer = $3`,
		user, a.AuthTimeS, a.Issuer)
	return err
}

// proofCookie names the cookie of the proof for action on a Run or a batch: each has its own, so that tabs do not disturb
// each other.
func proofCookie(action policy.Permission, subject uuid.UUID) string {
	return "proof_" + strings.TrimPrefix(string(action), "run.") + "_" + subject.String()[24:]
}

// Shown is the proof that the browser shows for action on a Run or a batch, and the hash of its cookie; false if it shows none.
func (s *StepUp) Shown(r *http.Request, action policy.Permission, subject uuid.UUID) (proof uuid.UUID, cookieHash []byte, ok bool) {
	id, secret, _ := strings.Cut(s.config.Cookies.Read(r, proofCookie(action, subject)), ".")
	proof, err := uuid.Parse(id)
	if err != nil || secret == "" {
		return uuid.Nil, nil, false
	}
	return proof, hash(secret), true
}

// Forget takes the proof for action on a Run or a batch away from the browser, which has no more use for it.
func (s *StepUp) Forget(w http.ResponseWriter, action policy.Permission, subject uuid.UUID) {
	s.config.Cookies.Write(w, proofCookie(action, subject), "")
}

func stepUpEvent(actor policy.Actor, outcome policy.Outcome, p policy.Purpose, proof *policy.Proof) policy.AuditEvent {
	e := policy.AuditEvent{Action: actionStepUp, Outcome: outcome, Actor: actor, ProjectID: p.ProjectID}
	if len(p.Items) > 0 {
		e.RunID, e.RunVersion = &p.Items[0].Run, p.Items[0].Version
		e.Detail = map[string]any{"action": p.Action}
	}
	if p.Batch != uuid.Nil {
		e.Detail = map[string]any{"action": p.Action, "batch": p.Batch}
	}
	if proof != nil {
		a := proof.Assurance
		e.ProofID, e.Words, e.Strength, e.ACR, e.AMR, e.AuthTimeS, e.SecondFactor = &proof.ID, proof.Words, a.Level, a.ACR, a.AMR, a.AuthTimeS, a.SecondFactor
	}
	return e
}

func (s *StepUp) denied(ctx context.Context, actor policy.Actor, p policy.Purpose, err error) error {
	return deniedWith(ctx, s.config.Authn, s.config.Log, stepUpEvent(actor, policy.Denied, p, nil), err)
}
