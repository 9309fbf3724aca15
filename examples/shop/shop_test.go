package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
	"github.com/17a2ac88/bullmq-go/bullmqtest"
)

// service is a running shop.
type service struct {
	*shop
	t   *testing.T
	kit *bullmqtest.Kit
	url string
	log *output
}

// start runs a shop until the test ends. The time of the kit must run.
func start(t *testing.T, kit *bullmqtest.Kit, stepTime time.Duration, queues ...string) *service {
	t.Helper()
	log := &output{}
	s := &service{t: t, kit: kit, log: log, shop: &shop{logger: slog.New(slog.NewTextHandler(log, nil)), stepTime: stepTime}}
	options := kit.ServerOptions()
	options.QueueNames = queues
	if err := s.open(t.Context(), kit.Conn(), *options); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.web)
	t.Cleanup(web.Close)
	s.url = web.URL
	kit.StartServer(s.server)
	return s
}

// output is a buffer for several goroutines.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (s *service) eventually(what string, reached func() bool) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain until %s; log:\n%s", what, s.log)
		}
	}
}

// call calls the API. It decodes the reply into result, unless that is nil.
func (s *service) call(method, path string, body, result any) int {
	s.t.Helper()
	response := s.do(method, path, body)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && result != nil {
		err = json.Unmarshal(text, result)
	}
	if err != nil {
		s.t.Fatalf("%s %s: %s %q: %v", method, path, response.Status, text, err)
	}
	return response.StatusCode
}

func (s *service) do(method, path string, body any) *http.Response {
	s.t.Helper()
	text, _ := json.Marshal(body)
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("X-Request-Id", "r-17")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

// order posts an order. It returns the path of its status, and whether that was known already.
func (s *service) order(o Order) (path string, replayed bool) {
	s.t.Helper()
	response := s.do("POST", "/orders", o)
	defer response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		s.t.Fatalf("POST /orders: %s", response.Status)
	}
	return response.Header.Get("Location"), response.Header.Get("Idempotency-Replayed") == "true"
}

// watch returns the events of an order, until the stream ends.
func (s *service) watch(path string, each func(bullmqhttp.Status)) (events []bullmqhttp.Status) {
	s.t.Helper()
	response := s.do("GET", path+"/events", nil)
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		s.t.Fatalf("GET %s/events: %s, %s", path, response.Status, kind)
	}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		var event bullmqhttp.Status
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			s.t.Fatal(err)
		}
		if events = append(events, event); each != nil {
			each(event)
		}
	}
	return events
}

// runningKit returns a kit whose time runs, and lets the test run beside others.
func runningKit(t *testing.T) *bullmqtest.Kit {
	t.Helper()
	t.Parallel()
	return bullmqtest.New(t, &bullmqtest.Options{RunningClock: true, Start: time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)})
}

func TestAnOrderIsProcessedWithItsEventsAndItsMail(t *testing.T) {
	kit := runningKit(t)
	s := start(t, kit, 100*time.Millisecond)
	path, _ := s.order(order)
	var steps []string
	events := s.watch(path, func(event bullmqhttp.Status) {
		var progress Progress
		// The first event has the state of the job and its progress so far.
		if event.Progress != nil && !event.State.Ended() && json.Unmarshal(event.Progress, &progress) == nil {
			steps = append(steps, progress.Step)
		}
	})
	last, all := events[len(events)-1], []string{"reserved", "charged", "packed"}
	if len(steps) == 0 || !slices.Equal(steps, all[max(0, len(all)-len(steps)):]) || last.State != bullmqhttp.Succeeded || string(last.Result) != `{"number":"A1","cents":4200}` {
		t.Errorf("events: %+v", events)
	}
	var status bullmqhttp.Status
	if code := s.call("GET", path, nil, &status); code != http.StatusOK || status.State != bullmqhttp.Succeeded || string(status.Result) != string(last.Result) {
		t.Errorf("GET %s: %d, %+v", path, code, status)
	}
	mail := bullmqtest.RequireAdded(t, kit, mailQueue, SendMail, bullmqtest.Match{Data: Mail{To: order.Email, Subject: "order A1"}})
	if id := string(mail.Options.Extra["requestId"]); id != `"r-17"` {
		t.Errorf("the mail has the request id %s", id)
	}
	s.eventually("the mail is sent", func() bool {
		return strings.Contains(s.log.String(), "mail sent") && strings.Contains(s.log.String(), "requestId=r-17")
	})
}

func TestTheSameOrderWithinAMinuteIsProcessedOnce(t *testing.T) {
	kit := runningKit(t)
	s := start(t, kit, 0)
	first, _ := s.order(order)
	if again, replayed := s.order(order); again != first || !replayed {
		t.Errorf("the second order is %s, %v", again, replayed)
	}
	kit.Advance(time.Minute)
	if later, replayed := s.order(order); later == first || replayed {
		t.Errorf("the later order is %s, %v", later, replayed)
	}
}

func TestACustomerCancelsARunningOrder(t *testing.T) {
	s := start(t, runningKit(t), time.Hour)
	path, _ := s.order(order)
	events := s.watch(path, func(event bullmqhttp.Status) {
		if event.State == bullmqhttp.Running {
			if code := s.call("DELETE", path, nil, nil); code != http.StatusAccepted {
				t.Errorf("DELETE: %d", code)
			}
		}
	})
	if last := events[len(events)-1]; last.State != bullmqhttp.Cancelled || last.Error != "cancelled: by the client" {
		t.Errorf("events: %+v", events)
	}
	var status bullmqhttp.Status
	if s.call("GET", path, nil, &status); status.State != bullmqhttp.Cancelled || status.Error != "cancelled: by the client" {
		t.Errorf("status: %+v", status)
	}
	for _, r := range []struct {
		method, path string
		code         int
	}{
		{"DELETE", path, http.StatusOK}, {"DELETE", "/orders/404", http.StatusNotFound}, {"GET", "/orders/404", http.StatusNotFound},
		{"GET", "/orders/404/events", http.StatusNotFound}, {"POST", "/orders", http.StatusBadRequest},
	} {
		response := s.do(r.method, r.path, nil)
		response.Body.Close()
		if response.StatusCode != r.code {
			t.Errorf("%s %s: %s", r.method, r.path, response.Status)
		}
	}
}

func TestAtMostTenMailsStartInASecond(t *testing.T) {
	kit := runningKit(t)
	s := start(t, kit, 0)
	mails := make([]bullmq.BulkJob, 15)
	for i := range mails {
		mails[i] = SendMail.Bulk(Mail{To: fmt.Sprintf("%d@example.org", i)}, nil)
	}
	if _, err := s.mail.AddBulk(t.Context(), mails); err != nil {
		t.Fatal(err)
	}
	var sent []*bullmq.Job
	s.eventually("the mails are sent", func() bool {
		var err error
		sent, err = s.mail.Jobs(t.Context(), bullmq.AllEntries(), bullmq.StateCompleted)
		return err == nil && len(sent) == len(mails)
	})
	slices.SortFunc(sent, func(a, b *bullmq.Job) int { return a.ProcessedOn.Compare(b.ProcessedOn) })
	if between := sent[10].ProcessedOn.Sub(sent[0].ProcessedOn); between < 900*time.Millisecond {
		t.Errorf("the eleventh mail started %v after the first", between)
	}
}

func TestTheReportRunsEachNight(t *testing.T) {
	kit := runningKit(t)
	s := start(t, kit, 0)
	path, _ := s.order(order)
	s.watch(path, nil)
	for _, night := range []string{"2030-05-02", "2030-05-03"} {
		kit.Advance(24 * time.Hour)
		var total *bullmq.Job
		s.eventually("there is a report of "+night, func() bool {
			job, state, err := s.reports.JobAndState(t.Context(), "total-"+night)
			total = job
			return err == nil && state == bullmq.StateCompleted
		})
		if result, err := ReportTotal.Result(total); err != nil || result.Date != night || len(result.Regions) != 3 {
			t.Errorf("got %+v, %v", result, err)
		}
	}
	var added struct{ ID string }
	if s.call("POST", "/reports/2030-05-01", nil, &added); added.ID != "total-2030-05-01" {
		t.Errorf("added %+v", added)
	}
	if total, err := ReportTotal.Wait(t.Context(), s.reports, added.ID); err != nil || total.Regions["north"] != 4200 {
		t.Errorf("got %+v, %v", total, err)
	}
}

func TestEachJobThatFailsForGoodRaisesOneAlert(t *testing.T) {
	kit := runningKit(t)
	s := start(t, kit, 0)
	other := start(t, kit, 0) // a second process
	const count = 8
	for i := range count {
		if _, err := SendMail.Add(t.Context(), s.mail, Mail{To: "nobody"}, &bullmq.JobOptions{JobID: fmt.Sprint("mail-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	letters := func() int {
		counts, err := s.dead.Counts(t.Context(), bullmq.StateWaiting)
		if err != nil {
			t.Fatal(err)
		}
		return counts[bullmq.StateWaiting]
	}
	// alerts returns how many alerts of a job were logged.
	alerts := func(id string) (n int) {
		for line := range strings.Lines(s.log.String() + other.log.String()) {
			if strings.Contains(line, "a job has failed for good") && strings.Contains(line, "job="+id+" ") {
				n++
			}
		}
		return n
	}
	s.eventually("there are dead letters", func() bool { return letters() == count })
	for i := range count {
		id := fmt.Sprint("mail-", i)
		s.eventually("there is an alert for "+id, func() bool { return alerts(id) > 0 })
		if n := alerts(id); n != 1 {
			t.Errorf("%d alerts for %s", n, id)
		}
	}
	var result struct{ Replayed int }
	if s.call("POST", "/dead/replay", nil, &result); result.Replayed != count {
		t.Errorf("replayed %d", result.Replayed)
	}
	s.eventually("the jobs have failed again", func() bool { return letters() == count })
}

func TestAnOrderThatHasFailedForGoodKeepsItsStatus(t *testing.T) {
	s := start(t, runningKit(t), 0)
	free := order
	free.Cents = 0
	path, _ := s.order(free)
	s.eventually("the order is a dead letter", func() bool { return strings.Contains(s.log.String(), "a job has failed for good") })
	var status bullmqhttp.Status
	if code := s.call("GET", path, nil, &status); code != http.StatusOK || status.State != bullmqhttp.Failed || status.Error != "order A1 costs nothing" {
		t.Errorf("GET %s: %d, %+v", path, code, status)
	}
	if events := s.watch(path, nil); len(events) != 1 || !reflect.DeepEqual(events[0], status) {
		t.Errorf("events: %+v", events)
	}
	response := s.do("DELETE", path, nil)
	response.Body.Close()
	if response.StatusCode != http.StatusConflict {
		t.Errorf("DELETE %s: %s", path, response.Status)
	}
}

func TestMetricsAndHealth(t *testing.T) {
	kit := runningKit(t)
	s := start(t, kit, 0)
	path, _ := s.order(order)
	s.watch(path, nil)
	text := func() string {
		response := s.do("GET", "/metrics", nil)
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return string(text)
	}
	s.eventually("the metrics count the order", func() bool {
		return strings.Contains(text(), `name="order.process",outcome="completed",queue="orders"} 1`) && strings.Contains(text(), `bullmq_up{queue="dead"} 1`)
	})
	if code := s.call("GET", "/livez", nil, nil); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	kit.Redis().Down()
	s.eventually("the service is not ready", func() bool { return s.call("GET", "/readyz", nil, nil) == http.StatusServiceUnavailable })
	if code := s.call("GET", "/livez", nil, nil); code != http.StatusOK {
		t.Errorf("/livez without Redis: %d", code)
	}
	kit.Redis().Up()
	s.eventually("the service is ready again", func() bool { return s.call("GET", "/readyz", nil, nil) == http.StatusOK })
}
