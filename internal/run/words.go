package run

import "github.com/qinglong/console/internal/text"

// words are the states as a person reads them.
var words = map[Status]text.Text{
	Created: text.Of("created"), WaitingApproval: text.Of("waiting for approval"), Queued: text.Of("queued"), Dispatching: text.Of("dispatching"),
	Running: text.Of("running"), RetryWait: text.Of("waiting to retry"), Lost: text.Of("lost"), Succeeded: text.Of("succeeded"), Failed: text.Of("failed"),
	Cancelled: text.Of("cancelled"), TimedOut: text.Of("timed out"), Claimed: text.Of("claimed"), Starting: text.Of("starting"),
}

// Word says s to a person.
func (s Status) Word() text.Text {
	if word, ok := words[s]; ok {
		return word
	}
	return text.Of("unknown")
}

// needs are the reasons of attentionSQL.
var needs = []text.Text{
	text.Of("it has no Attempt"),
	text.Of("lost: whether its command still runs, or ended and how, is not known; look at the worker"),
	text.Of("queued with a request to cancel that nobody has taken up"),
	text.Of("queued, but its newest Attempt is not as admission leaves it"),
	text.Of("its newest Attempt has ended and it has not"),
	text.Of("the lease of its worker has lapsed; the next start of a replica makes it lost"),
	text.Of("no component of this version takes it further"),
}

// Need says to a person why a Run needs one: the reason of an [Attention] or a [Detail].
func Need(reason string) text.Text {
	for _, n := range needs {
		if n.String() == reason {
			return n
		}
	}
	return text.Data(reason)
}
