package bullmqhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// directory keeps each body in a file of its own. All processes must share it. Remove old files by
// their age.
type directory struct{ root *os.Root }

func (d directory) Store(ctx context.Context, _ bullmqhttp.BodyInfo, body io.Reader) (string, error) {
	file, err := os.CreateTemp(d.root.Name(), "body-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, body)
	if err = errors.Join(err, file.Close(), ctx.Err()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name()[len(d.root.Name())+1:], nil
}

// Open can't leave the directory. The error of a file that was removed is fs.ErrNotExist.
func (d directory) Open(_ context.Context, ref string) (io.ReadCloser, error) {
	return d.root.Open(ref)
}

// Bodies of more than 1 MiB are files in a directory.
func ExampleBodyStore() {
	root, err := os.OpenRoot("/var/lib/reports")
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	bodies := directory{root}

	queue, err := bullmq.NewQueue(context.Background(), "reports", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	jobs := bullmqhttp.New(queue, &bullmqhttp.Options{Bodies: bodies, StoreAbove: 1 << 20, MaxBody: 1 << 30})
	http.Handle("POST /reports/{id}", jobs.Async("report", bullmqhttp.Route{}))
	http.Handle("/jobs/", jobs)

	handler := bullmqhttp.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError) // the job is retried
			return
		}
		fmt.Fprintln(w, size)
	}), bullmqhttp.ServeOptions{Bodies: bodies, StoreAbove: 1 << 20, MaxResponse: 1 << 30})
	_ = handler // for NewWorker
}
