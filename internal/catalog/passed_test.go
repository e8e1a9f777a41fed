package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPassedOver(t *testing.T) {
	at := func(clock string) int64 {
		instant, err := time.Parse("2006-01-02 15:04:05", "2026-03-29 "+clock)
		if err != nil {
			t.Fatal(err)
		}
		return instant.UnixMilli()
	}
	cursor := func(clock string) *int64 { return new(at(clock)) }
	const everyFive = `{"cron":"*/5 * * * *","enabled":true,"kind":"qinglong/cron@v1","misfire":"skip","project":"p",` +
		`"task":{"digest":"","id":"t","revision":1},"timezone":"UTC","trigger":"g","written":"*/5 * * * *"}`
	eachSecond := strings.ReplaceAll(everyFive, "*/5 * * * *", "* * * * * *")
	tests := []struct {
		name      string
		content   string
		cursor    *int64
		base      string
		seen, now string
		want      passedOver // without what is ahead
	}{
		{"not due", everyFive, cursor("03:05:00"), "03:00:00", "03:04:59", "03:04:59", passedOver{}},
		{"due this instant", everyFive, cursor("03:05:00"), "03:00:00", "03:05:00", "03:05:00",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:05:00"), count: 1}},
		{"several", everyFive, cursor("03:05:00"), "03:00:00", "03:15:00", "03:19:59",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:15:00"), count: 3}},
		{"due while waiting for locks", everyFive, cursor("03:05:00"), "03:00:00", "03:04:59", "03:05:00",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:05:00"), count: 1}},
		{"one more while waiting", everyFive, cursor("03:05:00"), "03:00:00", "03:09:59", "03:10:00",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:10:00"), count: 2}},
		{"several more while waiting", eachSecond, cursor("03:05:00"), "03:00:00", "03:05:01", "03:05:04",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:05:04"), count: 5}},
		{"several while waiting, none before", eachSecond, cursor("03:05:00"), "03:00:00", "03:04:59", "03:05:02",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:05:02"), count: 3}},
		{"as long as publishing may take", eachSecond, cursor("03:05:00"), "03:00:00", "03:04:59", "03:05:29",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:05:29"), count: 30}},
		{"longer than publishing may take", eachSecond, cursor("03:05:00"), "03:00:00", "03:04:59", "03:06:00",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:06:00"), count: 31, atLeast: true}},
		{"never initialised", everyFive, nil, "03:00:00", "03:05:00", "03:05:00",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:05:00"), count: 1}},
		{"never initialised, not due", everyFive, nil, "03:00:00", "03:04:00", "03:04:00", passedOver{}},
		{"zone is gone", strings.Replace(everyFive, `"UTC"`, `"Gone"`, 1), cursor("03:05:00"), "03:00:00", "03:15:00", "03:15:00",
			passedOver{firstMS: at("03:05:00"), lastMS: at("03:05:00"), count: 1, atLeast: true}},
		{"zone is gone, no cursor", strings.Replace(everyFive, `"UTC"`, `"Gone"`, 1), nil, "03:00:00", "03:15:00", "03:15:00", passedOver{}},
		{"another kind", strings.Replace(everyFive, "cron@v1", "x@v9", 1), cursor("03:05:00"), "03:00:00", "03:04:00", "03:04:00", passedOver{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			head := triggerHead{revision: 4, sealed: sealed{content: tt.content},
				schedule: scheduleRow{enabled: true, cursorMS: tt.cursor, baseAtMS: at(tt.base)}}
			got := passOver(head, at(tt.seen)).until(at(tt.now))
			if tt.want.count == 0 {
				got.firstMS, got.atLeast = 0, false // mean nothing then
			}
			tt.want.revision, got.ahead, got.seenMS = 4, nil, 0
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(passedOver{})); diff != "" {
				t.Errorf("passOver(seen %s).until(%s) (-want +got):\n%s", tt.seen, tt.now, diff)
			}
		})
	}
}
