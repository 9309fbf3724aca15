// Package bullmqtest helps to test programs that use package bullmq. It needs no Redis: a
// [Kit] runs one within the process.
//
//	var Welcome = bullmq.Define[Email, Receipt]("welcome")
//
//	func TestWelcome(t *testing.T) {
//		kit := bullmqtest.New(t, nil)
//		result := bullmqtest.Work(t, kit, mux.ServeJob, Welcome, Email{To: "ada"}, nil)
//		if result.State != bullmq.StateCompleted {
//			t.Fatal(result.Err)
//		}
//		bullmqtest.RequireAdded(t, kit, "reports", Report, bullmqtest.Match{Delay: time.Hour})
//	}
//
// There are three kinds of tests:
//
//   - [NewJob] makes a job for the unit test of a handler. The job records progress, data
//     and logs, and needs no Redis at all.
//   - [Work] and [Kit.Drain] start a worker. Work runs one attempt of a job. Drain runs all
//     jobs that are ready.
//   - [RequireAdded], [RequireNotAdded] and [RequireAddedInOrder] check which jobs a
//     program has added. [RequireWire] compares a job with a file, for programs in other
//     languages that read or add the same jobs. [RequireReply] calls an http.Handler.
//
// The time of a Kit stands still until [Kit.Advance] moves it.
//
// With the environment variable BULLMQTEST_REDIS_URL, the tests run on a real Redis.
package bullmqtest
