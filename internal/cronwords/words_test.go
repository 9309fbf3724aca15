package cronwords_test

import (
	"testing"

	"github.com/17a2ac88/bullmq-go/internal/cronwords"
)

func TestDescribe(t *testing.T) {
	for _, test := range []struct{ pattern, want string }{
		{"* * * * *", "every minute"},
		{"* * * * * *", "every second"},
		{"*/10 * * * * *", "every 10 seconds"},
		{"5,10 * * * * *", "at seconds 5 and 10 of every minute"},
		{"0-29 * * * * *", "every second from second 0 to 29 of every minute"},
		{"30 * * * * *", "every minute, at second 30"},
		{"*/15 * * * *", "every 15 minutes"},
		{"0,15,30,45 * * * *", "every 15 minutes"},
		{"0-59/15 * * * *", "every 15 minutes"},
		{"15 */5 * * * *", "every 5 minutes, at second 15"},
		{"*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"},
		{"5,35 * * * *", "at minutes 5 and 35 of every hour"},
		{"0-10 * * * *", "every minute from minute 0 to 10 of every hour"},
		{"0 * * * *", "every hour"},
		{"1 * * * *", "every hour, at 1 minute past"},
		{"5 * * * *", "every hour, at 5 minutes past"},
		{"30 5 * * * *", "every hour, at 05:30 past"},
		{"0 */4 * * *", "every 4 hours"},
		{"15 */4 * * *", "every 4 hours, at 15 minutes past"},
		{"0 */12 * * *", "every day at 00:00 and 12:00"},
		{"0 */5 * * *", "at 00:00, 05:00, 10:00, 15:00 and 20:00"},
		{"30 9 * * *", "every day at 09:30"},
		{"15 30 9 * * *", "every day at 09:30:15"},
		{"0 9,12,17 * * *", "every day at 09:00, 12:00 and 17:00"},
		{"0,30 9 * * *", "every day at 09:00 and 09:30"},
		{"0 9-17 * * *", "every hour from 09:00 to 17:00"},
		{"30 9-17 * * 1-5", "every hour from 09:30 to 17:30, Monday to Friday"},
		{"*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:45, Monday to Friday"},
		{"* 9 * * *", "every minute from 09:00 to 09:59"},
		{"*/20 9,12 * * *", "every 20 minutes of hours 9 and 12"},
		{"*/20 */6 * * *", "every 20 minutes of every 6th hour"},
		{"5,10,20 9-17 * * *", "at minutes 5, 10 and 20 from 09:00 to 17:59"},
		{"*/10 * 9-17 * * *", "every 10 seconds from 09:00:00 to 17:59:50"},
		{"*/10 0 * * * *", "every 10 seconds of minute 0 of every hour"},
		{"*/10 0 9,12 * * *", "every 10 seconds of minute 0 of hours 9 and 12"},
		{"* * 9,12 * * *", "every second of hours 9 and 12"},
		{"0 9 * * 1", "on Mondays at 09:00"},
		{"0 9 * * mon,fri", "on Mondays and Fridays at 09:00"},
		{"0 9 * * 0,6", "on Saturdays and Sundays at 09:00"},
		{"0 9 * * 7", "on Sundays at 09:00"},
		{"0 9 * * 0-7", "every day at 09:00"},
		{"0 9 * * 5L", "on the last Friday of every month at 09:00"},
		{"0 9 * * 5#2", "on the second Friday of every month at 09:00"},
		{"0 9 * 6 5#2", "on the second Friday of June at 09:00"},
		{"0 9 * * 1,5L", "on Mondays and on the last Friday of every month at 09:00"},
		{"0 9 1 * *", "on the 1st of every month at 09:00"},
		{"0 9 1,15 * *", "on the 1st and 15th of every month at 09:00"},
		{"0 9 1-7 * *", "on the 1st to 7th of every month at 09:00"},
		{"0 9 L * *", "on the last day of every month at 09:00"},
		{"0 9 15,L * *", "on the 15th and the last day of every month at 09:00"},
		{"0 9 */2 * *", "on every 2nd day of the month, from the 1st at 09:00"},
		{"0 9 25 12 *", "on the 25th of December at 09:00"},
		{"0 9 1 */3 *", "on the 1st of January, April, July and October at 09:00"},
		{"0 9 * 6-8 *", "every day in June to August at 09:00"},
		{"* * * 6 *", "every minute, every day in June"},
		{"0 9 * 6 1", "on Mondays in June at 09:00"},
		{"0 9 1 * 1", "on the 1st of every month and on Mondays at 09:00"},
		{"* * 13 * 5", "every minute, on the 13th of every month and on Fridays"},
		{"H H * * *", "at a random minute of a random hour"},
		{"H H(0-7) * * 1-5", "at a random minute of a random hour, Monday to Friday"},
		{"H * * * *", "at a random minute of every hour"},
		{"H/10 * * * *", "at every 10th minute from a random one of every hour"},
		{"H 0 9 * * *", "at a random second of minute 0 of hour 9"},
		{"0 9 H * *", "on a random day of every month at 09:00"},
		{"0 9 * * H", "on a random day of the week at 09:00"},
		{"0 0 * * THU", "on Thursdays at 00:00"},
		{"@daily", "every day at 00:00"},
		{"@hourly", "every hour"},
		{"@weekly", "on Sundays at 00:00"},
		{"@monthly", "on the 1st of every month at 00:00"},
		{"@yearly", "on the 1st of January at 00:00"},
		{"@secondly", "every second"},
		{"@weekdays", "Monday to Friday at 00:00"},
		{"@weekends", "on Saturdays and Sundays at 00:00"},
		{"5", "every minute, on Fridays"},
	} {
		if got, err := cronwords.Describe(test.pattern); err != nil || got != test.want {
			t.Errorf("Describe(%q) = %q, %v; want %q", test.pattern, got, err, test.want)
		}
	}
}

func TestDescribeReturnsTheErrorOfAPattern(t *testing.T) {
	for _, pattern := range []string{"", "61 * * * *", "0 0 30 2 *", "nonsense"} {
		if words, err := cronwords.Describe(pattern); err == nil {
			t.Errorf("Describe(%q) = %q, without an error", pattern, words)
		}
	}
}
