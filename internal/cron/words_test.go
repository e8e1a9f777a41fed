package cron

import "testing"

func TestWords(t *testing.T) {
	tests := []struct{ expression, want string }{
		{"30 2 * * *", "at 02:30 every day"},
		{"0 9,14 * * MON-FRI", "at 09:00 and 14:00, Monday to Friday"},
		{"0 9 * * 1,2,4", "at 09:00 every Monday, Tuesday and Thursday"},
		{"0 9 * JAN,JUL 1,4", "at 09:00 every Monday or Thursday in January and July"},
		{"0 9 * JAN *", "at 09:00 every day in January"},
		{"0 0 31 * *", "at 00:00 on day 31 of every month where it exists"},
		{"0 0 */2 2,4 *", "at 00:00 on days 1 to 31 in steps of 2 of February and April where they exist"},
		{"0 0 13 * 5", "at 00:00 on day 13 of every month and also every Friday"},
		{"0 0 13 3 5", "at 00:00 on day 13 of March and also every Friday in March"},
		{"0 0 1-7 * */7", "at 00:00 on days 1 to 7 of every month, but only on a Sunday"},
		{"*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:59, Monday to Friday"},
		{"30 */15 * * * *", "every 15 minutes at second 30"},
		{"30 * * * * *", "every minute at second 30"},
		{"5 */2 * * *", "every 2 hours from 00:05 to 22:05"},
		{"10 5 * * * *", "every hour at minute 5 and second 10"},
		{"1,2,7 * * * *", "at minutes 1, 2 and 7 of every hour"},
		{"1,2,7 9-17 * * *", "at minutes 1, 2 and 7 of every hour from 09:00 to 17:59"},
		{"*/20 3,5,9,20 * * *", "every 20 minutes during hours 3, 5, 9 and 20"},
		{"*/10 5,20 * * * *", "every 10 seconds of minutes 5 and 20 of every hour"},
		{"3,8 * * * * *", "at seconds 3 and 8 of every minute"},
		{"3,8 5 1,2,4,8 * * *", "at seconds 3 and 8 of minute 5 of hours 1, 2, 4 and 8"},
	}
	for _, tt := range tests {
		t.Run(tt.expression, func(t *testing.T) {
			s, err := Parse(tt.expression, "UTC")
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Words().String(); got != tt.want {
				t.Errorf("Words() = %q, want %q", got, tt.want)
			}
		})
	}
	if got := (Schedule{}).Words().String(); got != "never" {
		t.Errorf("the zero Schedule falls due %q, want never", got)
	}
}
