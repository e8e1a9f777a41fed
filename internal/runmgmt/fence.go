package runmgmt

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/qinglong/console/internal/pg"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/text"
)

// fence is by what the user is allowed it, read over the locked Project row.
type fence struct {
	projectActive  bool
	projectVersion int64
	userActive     bool
	role           policy.Role
	bindingVersion int64
	boundAtMS      int64 // when the role was given
}

// takeFence locks the Project until tx ends and decides, from what is there then, whether user may do p. The request
// was allowed when it came in, so what is refused here has changed since.
func takeFence(ctx context.Context, tx pgx.Tx, project string, user uuid.UUID, p policy.Permission) (f fence, err error) {
	defer pg.Wrap(&err, "runmgmt.takeFence(%s)", project)
	err = tx.QueryRow(ctx, `SELECT project_status = 'active', project_version, user_status = 'active', coalesce(role, ''), coalesce(binding_version, 0), coalesce(bound_at_ms, 0)
		FROM lock_run_management_policy_fence($1, $2)`, project, user).
		Scan(&f.projectActive, &f.projectVersion, &f.userActive, &f.role, &f.bindingVersion, &f.boundAtMS)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return f, refuse(NotFound, text.Of("There is no such Run."))
	case err != nil:
		return f, err
	case !f.userActive:
		return f, refuse(AuthorizationChanged, text.Of("Your account has been disabled."))
	case !f.projectActive:
		return f, refuse(AuthorizationChanged, text.Of("The Project has been archived, and is read-only."))
	case !f.role.May(p):
		return f, refuse(AuthorizationChanged, text.Of("You no longer have a role in this Project that may do this."))
	}
	return f, nil
}

// checkProof reads the proof by the database clock of now and refuses one that is not good for exactly this.
func checkProof(ctx context.Context, q pg.Querier, who Who, claim policy.Claim) (policy.Proof, error) {
	if who.ProofID == uuid.Nil {
		return policy.Proof{}, proofRefusal(policy.ProofMissing)
	}
	proof, err := policy.ReadProof(ctx, q, who.ProofID)
	if errors.Is(err, policy.ErrNoProof) {
		return policy.Proof{}, proofRefusal(policy.ProofMissing)
	}
	if err != nil {
		return policy.Proof{}, err
	}
	if problem := proof.Problem(claim); problem != "" {
		refusal := proofRefusal(problem)
		if problem != policy.ProofForeign {
			refusal.Words = proof.Words
		}
		return policy.Proof{}, refusal
	}
	return proof, nil
}

// checkBound refuses a proof that is older than the role: what was revoked and given again has been verified by nobody.
func (f fence) checkBound(proof policy.Proof) error {
	if f.boundAtMS > proof.CreatedAtMS {
		return refuse(AuthorizationChanged, text.Of("Your role in this Project has changed since you verified; verify again."))
	}
	return nil
}

// proofWords say what was found, for the operator.
var proofWords = map[policy.Reason]text.Text{
	policy.ProofMissing:      text.Of("There is no verification for this; verify with a second factor first."),
	policy.ProofForeign:      text.Of("The verification was made in another session or browser."),
	policy.ProofOtherPurpose: text.Of("The verification was made for something else."),
	policy.ProofConsumed:     text.Of("The verification has been used."),
	policy.ProofRevoked:      text.Of("The verification was revoked when its session ended."),
	policy.ProofExpired:      text.Of("The verification is more than five minutes old."),
	policy.ProofTooWeak:      text.Of("The verification had no second factor."),
}

func proofRefusal(problem policy.Reason) *Refusal {
	reason := StepUpRequired
	if problem == policy.ProofForeign || problem == policy.ProofOtherPurpose || problem == policy.ProofTooWeak {
		reason = AuthenticationChanged
	}
	return &Refusal{Reason: reason, Detail: proofWords[problem], Proof: problem}
}
