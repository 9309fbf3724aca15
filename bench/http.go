package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/17a2ac88/bullmq-go/bench/contender"
	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

// HTTP requests as jobs: a request that adds a job, beside a handler that only calls Queue.Add; and the time from the end of a job to
// the reply of the request that waits for it. Client, server and worker are in this process. The time is what the client sees.

// httpSizes says how much is measured in a round.
type httpSizes struct {
	warm     int // requests of each kind before the measurement
	submits  int // of each kind, one at a time
	requests int // of each kind, from inFlight clients
	waits    int // requests that wait at the same time
	spacing  time.Duration
}

var httpLoad = httpSizes{warm: 2_000, submits: 8_000, requests: 20_000, waits: 1_000, spacing: 2 * time.Millisecond}

// The paths of the two kinds of requests.
const (
	barePath  = "/bare/"  // calls Queue.Add
	asyncPath = "/async/" // bullmqhttp
)

var submitPaths = [2]string{barePath, asyncPath}

// submitted has the figures of one kind of request.
type submitted struct{ p50, p99, perSecond float64 } // microseconds

// waited has the times from the end of a job to the reply, in milliseconds.
type waited struct {
	p50, p99, worst float64 // if the jobs end one after the other
	all             float64 // until the last reply, if all jobs end at the same time
}

// httpRound has the figures of a round: of the bare handler and of bullmqhttp.
type httpRound struct {
	one, many [2]submitted
	waits     waited
}

// measureHTTP measures each round with a new server.
func measureHTTP(rounds int, sizes httpSizes) ([]httpRound, error) {
	var all []httpRound
	for round := range rounds {
		r, err := measureHTTPRound(round, sizes)
		if err != nil {
			return nil, fmt.Errorf("http: %w", err)
		}
		all = append(all, r)
		fmt.Fprintf(os.Stderr, "round %d of %d  http  submit p50 %.0f and %.0f µs, p99 %.0f and %.0f µs; %d clients %.0f and %.0f /s; waits p50 %.2f ms, p99 %.2f ms, worst %.2f ms\n",
			round+1, rounds, r.one[0].p50, r.one[1].p50, r.one[0].p99, r.one[1].p99, inFlight, r.many[0].perSecond, r.many[1].perSecond,
			r.waits.p50, r.waits.p99, r.waits.worst)
	}
	return all, nil
}

func measureHTTPRound(round int, sizes httpSizes) (r httpRound, err error) {
	s, err := openHTTP(sizes.waits)
	if err != nil {
		return r, err
	}
	defer s.close()
	if _, err := s.inTurns(round, sizes.warm); err != nil {
		return r, err
	}
	if r.one, err = s.inTurns(round, sizes.submits); err != nil {
		return r, err
	}
	if r.many, err = s.atOnce(round, sizes.requests); err != nil {
		return r, err
	}
	r.waits, err = s.waits(sizes)
	return r, err
}

// httpService is a server with both kinds of handlers, and a client.
type httpService struct {
	*redis
	connection *bullmq.Connection
	queues     []*bullmq.Queue
	jobs       []*bullmqhttp.Server
	web        *httptest.Server
	client     *http.Client
	gates      []chan struct{} // of the jobs that requests wait for
	running    atomic.Int64    // of these jobs
	ended      []time.Time     // when the handler of each returned
}

func openHTTP(waits int) (*httpService, error) {
	server, err := startRedis()
	if err != nil {
		return nil, err
	}
	s := &httpService{redis: server, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: waits + inFlight}}}
	if s.connection, err = bullmq.Connect(context.Background(), server.URL()); err != nil {
		s.close()
		return nil, err
	}
	bare, err := s.queue("bare")
	if err != nil {
		s.close()
		return nil, err
	}
	web := http.NewServeMux()
	web.HandleFunc("POST "+barePath+"{id}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		job, err := bare.Add(r.Context(), contender.JobName, json.RawMessage(body), nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"id":%q}`, job.ID)
	})
	for _, name := range []string{"async", "waits"} {
		queue, err := s.queue(name)
		if err != nil {
			s.close()
			return nil, err
		}
		jobs := bullmqhttp.New(queue, nil)
		s.jobs = append(s.jobs, jobs)
		web.Handle("POST /"+name+"/{id}", jobs.Async(contender.JobName, bullmqhttp.Route{}))
	}
	s.web = httptest.NewServer(web)
	return s, nil
}

func (s *httpService) queue(name string) (*bullmq.Queue, error) {
	queue, err := bullmq.NewQueue(context.Background(), name, &bullmq.QueueOptions{Connection: s.connection})
	if err == nil {
		s.queues = append(s.queues, queue)
	}
	return queue, err
}

func (s *httpService) close() {
	for _, jobs := range s.jobs {
		jobs.Close()
	}
	if s.web != nil {
		s.client.CloseIdleConnections()
		s.web.Close()
	}
	for _, queue := range s.queues {
		_ = queue.Close()
	}
	if s.connection != nil {
		_ = s.connection.Close()
	}
	s.redis.close()
}

// post sends a request and returns how long the reply took, in microseconds.
func (s *httpService) post(path string, want int, headers ...string) (float64, error) {
	request, err := http.NewRequest(http.MethodPost, s.web.URL+path, strings.NewReader(contender.JobData))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	begun := time.Now()
	reply, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	took := time.Since(begun)
	if err == nil && reply.StatusCode != want {
		err = fmt.Errorf("POST %s: %s: %s", path, reply.Status, text)
	}
	return float64(took.Nanoseconds()) / 1e3, err
}

// inTurns sends requests of both kinds in turns, one at a time.
func (s *httpService) inTurns(round, requests int) (figures [2]submitted, err error) {
	runtime.GC()
	var micros [2][]float64
	for n := range 2 * requests {
		kind := (n + round) % 2
		took, err := s.post(submitPaths[kind]+"7", http.StatusAccepted)
		if err != nil {
			return figures, err
		}
		micros[kind] = append(micros[kind], took)
	}
	for kind := range figures {
		figures[kind] = submitted{p50: quantile(micros[kind], 0.5), p99: quantile(micros[kind], 0.99)}
	}
	return figures, nil
}

// atOnce sends requests from several clients, in several parts of one kind each.
func (s *httpService) atOnce(round, requests int) (figures [2]submitted, err error) {
	const parts = 4
	var micros [2][]float64
	var seconds [2]float64
	for part := range 2 * parts {
		kind := (part + part/2 + round) % 2 // each kind comes first as often as second
		runtime.GC()
		begun := time.Now()
		took, err := s.part(submitPaths[kind]+"7", requests/parts)
		if err != nil {
			return figures, err
		}
		seconds[kind] += time.Since(begun).Seconds()
		micros[kind] = append(micros[kind], took...)
	}
	for kind := range figures {
		figures[kind] = submitted{quantile(micros[kind], 0.5), quantile(micros[kind], 0.99), float64(len(micros[kind])) / seconds[kind]}
	}
	return figures, nil
}

// part sends requests from inFlight clients.
func (s *httpService) part(path string, requests int) ([]float64, error) {
	var sent atomic.Int64
	micros, errs := make([][]float64, inFlight), make([]error, inFlight)
	var clients sync.WaitGroup
	for i := range inFlight {
		clients.Go(func() {
			for sent.Add(1) <= int64(requests) {
				took, err := s.post(path, http.StatusAccepted)
				if err != nil {
					errs[i] = err
					return
				}
				micros[i] = append(micros[i], took)
			}
		})
	}
	clients.Wait()
	var all []float64
	for i := range micros {
		if errs[i] != nil {
			return nil, errs[i]
		}
		all = append(all, micros[i]...)
	}
	return all, nil
}

// waits measures with jobs that end one after the other, and with jobs that end at the same time.
func (s *httpService) waits(sizes httpSizes) (w waited, err error) {
	handler := bullmqhttp.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("id"))
		s.running.Add(1)
		select {
		case <-s.gates[n]:
		case <-r.Context().Done(): // after an error
		}
		s.ended[n] = time.Now()
		w.WriteHeader(http.StatusNoContent)
	}))
	worker, err := bullmq.NewWorker(context.Background(), "waits", handler, &bullmq.WorkerOptions{Connection: s.connection, Concurrency: sizes.waits})
	if err != nil {
		return w, err
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(context.Background()) }()
	defer func() {
		_ = worker.Close()
		if runErr := <-ended; err == nil {
			err = runErr
		}
	}()
	if _, err := s.wait(sizes.waits, 0); err != nil { // opens the connections
		return w, err
	}
	millis, err := s.wait(sizes.waits, sizes.spacing)
	if err != nil {
		return w, err
	}
	w.p50, w.p99, w.worst = quantile(millis, 0.5), quantile(millis, 0.99), quantile(millis, 1)
	millis, err = s.wait(sizes.waits, 0)
	w.all = quantile(millis, 1)
	return w, err
}

// wait sends requests that wait at the same time, lets their jobs end in random order, and returns the times from the return of each
// job's handler to the reply, in milliseconds.
func (s *httpService) wait(requests int, spacing time.Duration) ([]float64, error) {
	s.gates, s.ended = make([]chan struct{}, requests), make([]time.Time, requests)
	s.running.Store(0)
	for n := range s.gates {
		s.gates[n] = make(chan struct{})
	}
	replied, errs := make([]time.Time, requests), make(chan error, requests)
	for n := range requests {
		go func() {
			_, err := s.post("/waits/"+strconv.Itoa(n), http.StatusNoContent, "Prefer", "wait=25")
			replied[n] = time.Now()
			errs <- err
		}()
	}
	for begun := time.Now(); s.running.Load() < int64(requests); time.Sleep(time.Millisecond) {
		if time.Since(begun) > outputTimeout {
			return nil, fmt.Errorf("%d of %d jobs run after %v", s.running.Load(), requests, outputTimeout)
		}
	}
	time.Sleep(300 * time.Millisecond) // until all requests wait
	runtime.GC()
	for _, n := range rand.Perm(requests) {
		close(s.gates[n])
		time.Sleep(spacing)
	}
	for range requests {
		if err := <-errs; err != nil {
			return nil, err
		}
	}
	millis := make([]float64, requests)
	for n := range millis {
		millis[n] = float64(replied[n].Sub(s.ended[n]).Nanoseconds()) / 1e6
	}
	return millis, nil
}
