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
	unsure      text.Text // the second confirmation is missing
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
	unsure:     text.Of("The second confirmation is missing: the Task’s author says that running it again is not safe."),
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

var retryManyWords = deedWords{
	link:   text.Of("Retry selected…"),
	button: text.Of("Retry the selected Runs"),
	consequence: templates.Sentence{Lead: text.Of("Every retry runs the same command again,"),
		Rest: text.Of("as a new Run, and repeats whatever it does: mails are sent and bills are written a second time. The selected Runs do not change.")},
	why:        text.Of("Why are these Runs retried? It is kept in the audit, and on each of them."),
	noReason:   text.Of("A reason is missing: say why the Runs are retried."),
	unsure:     text.Of("The second confirmation is missing: of some of the selected Runs, the Task’s author says that running it again is not safe."),
	whyVerify:  retryWords.whyVerify,
	goodFor:    text.Of("These Runs as they are now and retrying them, once, within five minutes. Some may be left out then; none can be added."),
	submits:    text.Of("Creates one Run for each that is selected, linked to it: all of them, or none."),
	never:      text.Of("None of these Runs can be retried."),
	forbidden:  text.Of("You may not retry Runs of this Project"),
	notDone:    text.Of("Nothing was retried."),
	unknown:    text.Of("The database did not say whether these Runs were retried."),
	beginAgain: text.Of("Look at the batch. To retry others, select them anew."),
}

var stopManyWords = deedWords{
	link:   text.Of("Stop selected…"),
	button: text.Of("Stop the selected Runs"),
	consequence: templates.Sentence{Lead: text.Of("Stopping asks whoever executes these Runs to end them."),
		Rest: text.Of("What they have done until then is not undone.")},
	why:        text.Of("Why are these Runs asked to stop? It is kept in the audit, and on each of them."),
	noReason:   text.Of("A reason is missing: say why the Runs are asked to stop."),
	whyVerify:  stopWords.whyVerify,
	goodFor:    text.Of("These Runs as they are now and stopping them, once, within five minutes. Some may be left out then; none can be added."),
	submits:    text.Of("Asks whoever executes the selected Runs to end them: all of them, or none. Until they have, they go on."),
	never:      text.Of("None of these Runs can be asked to stop."),
	forbidden:  text.Of("You may not stop Runs of this Project"),
	notDone:    text.Of("Nothing was asked to stop."),
	unknown:    text.Of("The database did not say whether these Runs were asked to stop."),
	beginAgain: text.Of("Look at the batch. To stop others, select them anew."),
}

// What pausing and resuming say, which takes no verification.
var (
	pauseWords = deedWords{
		button:    text.Of("Pause"),
		why:       text.Of("Why is this Trigger paused? Everybody who sees the Schedule reads it."),
		noReason:  text.Of("A reason is missing: say why the Trigger is paused."),
		forbidden: text.Of("You may not pause this Trigger"),
		notDone:   text.Of("The Trigger was not paused."),
		unknown:   text.Of("The database did not say whether the Trigger was paused."),
	}
	resumeWords = deedWords{
		button:    text.Of("Resume"),
		why:       text.Of("Why, if there is more to say. It is kept in the audit."),
		forbidden: text.Of("You may not resume this Trigger"),
		notDone:   text.Of("The Trigger was not resumed."),
		unknown:   text.Of("The database did not say whether the Trigger was resumed."),
	}
)
