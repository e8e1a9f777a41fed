//go:build torture

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qinglong/console/e2e/checker"
)

// What is done to definitions.
const (
	doPublish     = "publish"
	doDisable     = "disable"
	doEnable      = "enable"
	doDisableTask = "disable the Task of"
	doEnableTask  = "enable the Task of"
	doPause       = "pause"
	doResume      = "resume from then on"
	doCatchUp     = "resume and catch up"
	doArchive     = "archive"
	doUnarchive   = "un-archive"
	doKillApply   = "kill -9 while publishing"
	doFreezeApply = "freeze while publishing"
)

// A project is what the plan has made of one so far.
type project struct {
	*dice
	tasks    map[string]bool // enabled
	triggers []*planned
}

// A planned Trigger.
type planned struct {
	id, task string
	periodMS int64
	misfire  string
	enabled  bool
	pause    *holding      // while it lasts
	until    time.Duration // when it is to end
}

// initially is a Project as it is published before the beginning.
func initially(d *dice) *project {
	return &project{dice: d, tasks: map[string]bool{"one": true, "two": true}, triggers: []*planned{
		{id: "each", task: "one", periodMS: 1000, misfire: "fire_once", enabled: true},
		{id: "each-skip", task: "one", periodMS: 1000, misfire: "skip", enabled: true},
		{id: "second", task: "two", periodMS: 2000, misfire: "fire_once", enabled: true},
		{id: "fifth-skip", task: "two", periodMS: 5000, misfire: "skip", enabled: true},
	}}
}

// project fills the lane of a Project. Whatever is paused or archived goes on again by the end.
func (d *dice) project() {
	p := initially(d)
	for d.passes(500*time.Millisecond, 5*time.Second) {
		if over := p.over(); over != nil {
			p.resume(over)
			continue
		}
		if p.IntN(2) == 0 && p.wake() {
			continue
		}
		d.one(chance{5, p.publish}, chance{3, p.toggle}, chance{1, p.toggleTask}, chance{4, p.hold}, chance{1, p.archive})
	}
	d.now = d.length
	for _, t := range p.triggers {
		if t.pause != nil {
			p.resume(t)
		}
	}
}

func (p *project) any() *planned { return p.triggers[p.IntN(len(p.triggers))] }

// over is a Trigger whose pause is to end.
func (p *project) over() *planned {
	i := slices.IndexFunc(p.triggers, func(t *planned) bool { return t.pause != nil && t.until <= p.now })
	if i < 0 {
		return nil
	}
	return p.triggers[i]
}

// publish gives a Trigger another period and perhaps another policy: every other time one that is paused, if any is.
func (p *project) publish() {
	t := p.any()
	if i := slices.IndexFunc(p.triggers, func(t *planned) bool { return t.pause != nil }); i >= 0 && p.IntN(2) == 0 {
		t = p.triggers[i]
	}
	t.periodMS = map[int64]int64{1000: 2000, 2000: 5000, 5000: 1000}[t.periodMS]
	t.misfire = []string{"skip", "fire_once"}[p.IntN(2)]
	p.change(doPublish, t)
}

func (p *project) toggle() { p.turn(p.any()) }

func (p *project) turn(t *planned) {
	t.enabled = !t.enabled
	p.change(map[bool]string{true: doEnable, false: doDisable}[t.enabled], t)
}

// wake enables something that is disabled, if anything is.
func (p *project) wake() bool {
	for _, t := range p.triggers {
		switch {
		case !p.tasks[t.task]:
			p.turnTask(t.task)
			return true
		case !t.enabled:
			p.turn(t)
			return true
		}
	}
	return false
}

func (p *project) toggleTask() { p.turnTask(p.any().task) }

// turnTask publishes the Task alone, which gives each of its Triggers a revision.
func (p *project) turnTask(task string) {
	p.tasks[task] = !p.tasks[task]
	p.apply(map[bool]string{true: doEnableTask, false: doDisableTask}[p.tasks[task]], task,
		&application{Manifest: p.manifest("", task), Revisions: p.revisions(p.of(task)...)})
}

func (p *project) of(task string) (list []*planned) {
	for _, t := range p.triggers {
		if t.task == task {
			list = append(list, t)
		}
	}
	return list
}

// archive archives the Project for some time, in which nothing else is done to it.
func (p *project) archive() {
	length := p.between(time.Second, 6*time.Second)
	p.apply(doArchive, "", &application{Manifest: p.manifest("archived", ""), Turns: []checker.Turn{{Project: p.on, Archived: true}}})
	p.now += length
	p.apply(doUnarchive, "", &application{Manifest: p.manifest("active", ""), Turns: []checker.Turn{{Project: p.on}}})
}

// hold pauses a Trigger that is not paused.
func (p *project) hold() {
	t := p.any()
	if t.pause != nil {
		return
	}
	t.pause = &holding{ID: p.uuid(), Project: p.on, Trigger: t.id, CatchUp: p.IntN(2) == 0}
	p.add(move{Do: doPause, On: p.on + "/" + t.id, Pause: t.pause, Dice: p.Uint64()})
	t.until = p.now + p.between(time.Second, 9*time.Second)
}

func (p *project) resume(t *planned) {
	p.add(move{Do: map[bool]string{true: doCatchUp, false: doResume}[t.pause.CatchUp], On: p.on + "/" + t.id, Pause: t.pause, Dice: p.Uint64()})
	t.pause = nil
}

// change adds the publication of a Trigger as it is now.
func (p *project) change(do string, t *planned) {
	p.apply(do, t.id, &application{Manifest: p.manifest("", t.task, t), Revisions: p.revisions(t)})
}

// apply adds a publication. Every other time something is done to its first attempt.
func (p *project) apply(do, of string, a *application) {
	a.After, a.For = p.between(5*time.Millisecond, 120*time.Millisecond), p.between(200*time.Millisecond, 5*time.Second)
	a.Meddle = []string{doKillApply, doFreezeApply, "", ""}[p.IntN(4)]
	p.add(move{Do: do, On: strings.TrimSuffix(p.on+"/"+of, "/"), Apply: a})
}

// revisions are what the rows will say of Triggers.
func (p *project) revisions(triggers ...*planned) (list []checker.Revision) {
	for _, t := range triggers {
		list = append(list, checker.Revision{Project: p.on, Trigger: t.id, PeriodMS: t.periodMS, Misfire: t.misfire, Enabled: t.enabled && p.tasks[t.task]})
	}
	return list
}

// manifest writes the Project with one Task, if one is named, and Triggers of it.
func (p *project) manifest(state, task string, triggers ...*planned) string {
	var b strings.Builder
	fmt.Fprintf(&b, "projects:\n  - id: %s\n    name: %s\n", p.on, p.on)
	if state != "" {
		fmt.Fprintf(&b, "    state: %s\n", state)
	}
	if task != "" {
		fmt.Fprintf(&b, "    tasks:\n%s", p.written(task, triggers))
	}
	return b.String()
}

func (p *project) written(task string, triggers []*planned) string {
	var b strings.Builder
	fmt.Fprintf(&b, "      - id: %s\n        name: %s\n        enabled: %t\n        command: [/bin/true]\n", task, task, p.tasks[task])
	if len(triggers) > 0 {
		b.WriteString("        triggers:\n")
	}
	for _, t := range triggers {
		fmt.Fprintf(&b, "          - { id: %s, cron: %q, timezone: UTC, misfire: %s, enabled: %t }\n", t.id, expression(t.periodMS), t.misfire, t.enabled)
	}
	return b.String()
}

// everything is the Project with all its Tasks and Triggers.
func (p *project) everything() *application {
	return &application{Manifest: p.manifest("", "one", p.of("one")...) + p.written("two", p.of("two")), Revisions: p.revisions(p.triggers...)}
}

func expression(periodMS int64) string {
	if periodMS == 1000 {
		return "* * * * * *"
	}
	return fmt.Sprintf("*/%d * * * * *", periodMS/1000)
}
