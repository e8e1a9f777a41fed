package web

import (
	"net/url"
	"strconv"

	"github.com/google/uuid"
)

// links makes every address the console shows or sends to, below its base path.
type links struct {
	base  string           // "", or a path without a trailing slash
	pages map[string]route // to which one is led back, by name
}

// url returns the address of path, which begins with a slash, with the non-empty values of q.
func (l links) url(path string, q url.Values) string { return withQuery(l.base+path, q) }

func withQuery(address string, q url.Values) string {
	if len(q) == 0 {
		return address
	}
	if kept := nonEmpty(q); len(kept) > 0 {
		return address + "?" + kept.Encode()
	}
	return address
}

func nonEmpty(q url.Values) url.Values {
	kept := url.Values{}
	for name, values := range q {
		for _, v := range values {
			if v != "" {
				kept.Add(name, v)
			}
		}
	}
	return kept
}

func (l links) run(id uuid.UUID) string { return l.url("/runs/"+id.String(), nil) }

// mutation says whether a submission happened.
func (l links) mutation(id uuid.UUID) string { return l.url("/go/mutation/"+id.String(), nil) }

func (l links) batch(id uuid.UUID) string { return l.url("/batches/"+id.String(), nil) }

// submission is where the Runs of a batch, or only those at some places in it, are looked at once more and submitted.
func (l links) submission(id uuid.UUID, only string) string {
	return withQuery(l.batch(id)+"/submit", url.Values{"only": {only}})
}

func (l links) verifyBatch(id uuid.UUID) string { return l.batch(id) + "/submit/verify" }

func (l links) schedule(project, trigger string) string {
	return l.url("/schedules/"+url.PathEscape(project)+"/"+url.PathEscape(trigger), nil)
}

// account leads to the account of a Schedule on its page.
func (l links) account(project, trigger string, q url.Values) string {
	return withQuery(l.schedule(project, trigger), q) + "#account"
}

// instant leads to what the account of a Schedule says of one instant.
func (l links) instant(project, trigger string, ms int64) string {
	at := rfc3339(ms)
	return withQuery(l.schedule(project, trigger), url.Values{"from": {at}, "to": {at}}) + "#" + instantAnchor(ms)
}

// instantAnchor names the row of an account that is about one instant.
func instantAnchor(ms int64) string { return "at-" + strconv.FormatInt(ms, 10) }

// accountAs is the account of a Schedule as what suffix says.
func (l links) accountAs(suffix, project, trigger string, q url.Values) string {
	return withQuery(l.schedule(project, trigger)+accountPath+suffix, q)
}

// runs lists Runs. Its arguments are the names and values of filters, in turn.
func (l links) runs(filters ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(filters); i += 2 {
		q.Set(filters[i], filters[i+1])
	}
	return l.url("/runs", q)
}
