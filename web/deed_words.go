package web

import (
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

// deedWords are what the pages of a deed say that no other deed's say.
type deedWords struct {
	link        text.Text // on the Run's page
	button      text.Text // the least surprising
	consequence templates.Sentence
	why         text.Text // asks for the reason
	noReason    text.Text
	whyVerify   text.Text
	goodFor     text.Text // what a verification is
	submits     text.Text // what submitting does
	never       text.Text // no verification would help
	forbidden   text.Text
	notDone     text.Text
	unknown     text.Text // whether it was done
	beginAgain  text.Text // after a form that was sent before
}

var retryWords = deedWords{
	link:   text.Of("Retry…"),
	button: text.Of("Retry this Run"),
	consequence: templates.Sentence{Lead: text.Of("A retry runs the same command again,"),
		Rest: text.Of("as a new Run, and repeats whatever it does: mails are sent and bills are written a second time. This Run itself does not change.")},
	why:        text.Of("Why is this Run retried? It is kept in the audit, and on the Run."),
	noReason:   text.Of("A reason is missing: say why the Run is retried."),
	whyVerify:  text.Of("A session may be hours old, or somebody else's hands; retrying must be you, now."),
	goodFor:    text.Of("This Run as it is now and retrying it, once, within five minutes."),
	submits:    text.Of("Creates one Run, linked to this one. This Run does not change."),
	never:      text.Of("This Run cannot be retried."),
	forbidden:  text.Of("You may not retry this Run"),
	notDone:    text.Of("Nothing was retried."),
	unknown:    text.Of("The database did not say whether this Run was retried."),
	beginAgain: text.Of("Look at the Run that was made. To retry again, begin again from the Run."),
}

var stopWords = deedWords{
	link:   text.Of("Stop…"),
	button: text.Of("Stop this Run"),
	consequence: templates.Sentence{Lead: text.Of("Stopping asks whoever executes this Run to end it."),
		Rest: text.Of("What it has done until then is not undone.")},
	why:        text.Of("Why is this Run asked to stop? It is kept in the audit, and on the Run."),
	noReason:   text.Of("A reason is missing: say why the Run is asked to stop."),
	whyVerify:  text.Of("A session may be hours old, or somebody else's hands; stopping must be you, now."),
	goodFor:    text.Of("This Run as it is now and stopping it, once, within five minutes."),
	submits:    text.Of("Asks whoever executes this Run to end it. Until they have, it goes on."),
	never:      text.Of("This Run cannot be asked to stop."),
	forbidden:  text.Of("You may not stop this Run"),
	notDone:    text.Of("Nothing was asked to stop."),
	unknown:    text.Of("The database did not say whether this Run was asked to stop."),
	beginAgain: text.Of("Look at the Run that was asked to stop. To stop it, begin again from the Run."),
}
