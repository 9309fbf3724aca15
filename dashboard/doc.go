// Package dashboard shows queues, jobs and workers in a browser. It is an http.Handler
// without dependencies beside the SDK. It reads and changes queues of any client, also those
// that only Node uses.
//
//	connection, err := bullmq.Connect(ctx, "redis://127.0.0.1:6379")
//	…
//	pages, err := dashboard.New(connection, &dashboard.Options{Base: "/queues"})
//	…
//	http.Handle("/queues/", pages)
//
// The pages work without JavaScript. Without Options.Authorize, they are served only to
// browsers on the same machine.
package dashboard
