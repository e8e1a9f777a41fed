package web

import (
	"strings"

	"github.com/qinglong/console/internal/oidc"
	"github.com/qinglong/console/internal/policy"
	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/runmgmt"
	"github.com/qinglong/console/internal/text"
)

// Facts are on record under stable words, which exports and JSON have as they are. Pages say them in the reader's language,
// with the stable word beside it: it is what a search finds.

// eventWord names an Event. Most are of a Run that came into a state.
func eventWord(kind string) text.Text {
	if kind == "run.cancel_requested" {
		return text.Of("asked to stop")
	}
	if state, ok := strings.CutPrefix(kind, "run."); ok {
		if known, ok := runStatuses[run.Status(state)]; ok {
			return known.Word
		}
	}
	return text.Data(visible(kind))
}

// actorWords are the kinds of actors that an Event may have.
var actorWords = map[string]text.Text{"scheduler": text.Of("scheduler"), "user": text.Of("user"), "executor": text.Of("executor"), "recovery": text.Of("recovery")}

func actorWord(kind, name string) text.Text {
	known, ok := actorWords[kind]
	if !ok {
		known = text.Data(visible(kind))
	}
	return text.Of("%s %s", known, shorten(visible(name), listName))
}

// auditWords are what an audit may say was done, or tried.
var auditWords = map[string]text.Text{
	"run.retry": text.Of("Retry"), "run.retry_preview": text.Of("Preview of a retry"), "run.stop": text.Of("Stop"), "run.stop_preview": text.Of("Preview of a stop"),
	"run.batch": text.Of("Selection of Runs"), "trigger.pause": text.Of("Pause"), "trigger.resume": text.Of("Resumption"),
	"session.step_up": text.Of("Verification"), "session.sign_in": text.Of("Sign-in"), "session.sign_out": text.Of("Sign-out"),
	"session.sign_out_everywhere": text.Of("Sign-out everywhere"), "session.user_switch": text.Of("Change of the proxy’s user"),
	"session.backchannel_logout": text.Of("Sign-out by the provider"), "binding.grant": text.Of("Role given"), "binding.revoke": text.Of("Role taken"),
	"user.disable": text.Of("Account disabled"), "user.enable": text.Of("Account enabled"),
	"session.end_every": text.Of("End of every session"),
}

func auditWord(action string) text.Text {
	if known, ok := auditWords[action]; ok {
		return known
	}
	return text.Data(visible(action))
}

// auditReasons are those for which what the refused was told is an advice, and no reason.
var auditReasons = map[runmgmt.Reason]text.Text{
	runmgmt.StepUpRequired: text.Of("No good verification"), runmgmt.AuthenticationChanged: text.Of("The verification is for another purpose"), runmgmt.NotFound: text.Of("No such Run"),
}

// auditReason says why something was refused.
func auditReason(r policy.Reason) text.Text {
	if known, ok := auditReasons[runmgmt.Reason(r)]; ok {
		return known
	}
	if title, ok := refusalTitles[runmgmt.Reason(r)]; ok {
		return title
	}
	if known, ok := stepUpKinds[oidc.Kind(r)]; ok {
		return known.title
	}
	if known, ok := refusals[oidc.Kind(r)]; ok {
		return known.title
	}
	return text.Data(strings.ReplaceAll(visible(string(r)), "_", " "))
}
