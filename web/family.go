package web

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/qinglong/console/internal/run"
	"github.com/qinglong/console/internal/text"
	"github.com/qinglong/console/web/templates"
)

const deepest = 6 // what a page indents; deeper ones stand there too

// family lays a retry family out as a tree, each retry below its source.
func (s *server) family(list []run.Member, current uuid.UUID, nowMS int64) templates.Family {
	children := map[uuid.UUID][]run.Member{}
	for _, m := range list {
		if m.RetryOf != nil {
			children[*m.RetryOf] = append(children[*m.RetryOf], m)
		}
	}
	var f templates.Family
	var add func(m run.Member)
	add = func(m run.Member) {
		f.Members = append(f.Members, s.member(m, current, nowMS))
		for _, child := range children[m.ID] {
			add(child)
		}
	}
	if len(list) > 0 {
		add(list[0])
	}
	if len(list) >= run.MaxFamily {
		f.More = text.Of("Only the first %s Runs of this family are shown.", run.MaxFamily)
	}
	return f
}

func (s *server) member(m run.Member, current uuid.UUID, nowMS int64) templates.Member {
	row := templates.Member{ID: shortID(m.ID, s.links.run(m.ID)), Status: runStatuses[m.Status], Level: strconv.Itoa(min(m.Depth, deepest)),
		Created: instant(m.CreatedAtMS, nowMS), Current: m.ID == current}
	if m.By != nil {
		row.By = shorten(visible(*m.By), listName)
	}
	if m.Reason != nil {
		row.Reason = shorten(visible(*m.Reason), listText)
	}
	return row
}
