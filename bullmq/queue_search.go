package bullmq

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
	"github.com/17a2ac88/bullmq-go/bullmq/internal/wire"
)

// JobSearch describes the jobs that [Queue.Search] finds. A job must meet every condition
// that is set. The zero JobSearch finds all jobs.
type JobSearch struct {
	// States are the states to search, one after the other. Without states, all are searched.
	States []State

	// Name is the name of the jobs.
	Name string
	// Data is a text that occurs in the data of the jobs, which is JSON. Case is ignored.
	Data string
	// Error is a text that occurs in the FailedReason of the jobs. Case is ignored.
	Error string
	// AddedBefore and AddedAfter bound the time at which the jobs were added.
	AddedBefore, AddedAfter time.Time
	// FinishedBefore and FinishedAfter bound the time at which the jobs completed or failed. Jobs
	// that have not finished don't match.
	FinishedBefore, FinishedAfter time.Time

	// Limit is the maximum number of jobs to return.
	// Defaults to 100.
	Limit int
	// MaxRead is the maximum number of jobs to read. Each is read whole, so that the search
	// costs Redis a command and the size of the job.
	// Defaults to 10,000.
	MaxRead int
	// MaxTime is the time after which the search reads no more jobs.
	// Defaults to 2 seconds.
	MaxTime time.Duration
	// After is the Next of an earlier page. The search continues after that page.
	After string
}

// JobPage is a page of the jobs that [Queue.Search] finds.
type JobPage struct {
	Jobs   []*Job
	States []State // of the jobs, in the same order
	// Read is the number of jobs that were read.
	Read int
	// Next is the After of the next page. It is "" if all jobs have been read. A page may
	// have no jobs although Next is set, if MaxRead or MaxTime has ended the search.
	Next string
}

const (
	searchLimit    = 100
	searchMaxRead  = 10_000
	searchMaxTime  = 2 * time.Second
	searchPageSize = 100 // jobs that are read in one call
)

// Search reads the jobs of the queue and returns those that match, the newest first in each
// state. To find a job by its id, use [Queue.Job], which costs one command.
//
// A search is bounded by Limit, MaxRead and MaxTime. Pass the Next of a page as After to
// continue. Redis serves other clients in between. A job that stays in its state during the
// search is found, whatever jobs come and go. It may be found again by a later page if many
// jobs leave a list of waiting or active jobs meanwhile. A job that changes its state may be
// found twice, or not at all. Jobs that are added meanwhile are mostly not found.
func (q *Queue) Search(ctx context.Context, search JobSearch) (*JobPage, error) {
	s, err := q.newSearch(search)
	if err != nil {
		return nil, err
	}
	page := &JobPage{}
	err = s.run(ctx, func(job *Job, state State, _ backend.JobPosition) (more bool) {
		page.Jobs, page.States = append(page.Jobs, job), append(page.States, state)
		return len(page.Jobs) < s.limit
	})
	if err != nil {
		return nil, fmt.Errorf("bullmq: search queue %s: %w", q.Name(), err)
	}
	page.Read, page.Next = s.read, s.next(nil)
	return page, nil
}

// MatchResult tells what [Queue.EachMatch] has done.
type MatchResult struct {
	Matched int // number of jobs that matched
	Done    int // number of jobs for which do returned no error
	Gone    int // number of jobs that no longer matched when it was their turn
	// Failed has the error of each job for which do has failed.
	Failed map[string]error
	// Next is the After that continues with the jobs that were not read. It is "" if all jobs
	// have been read.
	Next string
}

// EachMatch calls do for each job that the search finds. First it searches, and keeps the
// ids. Then it reads the jobs again, a few at a time, and calls do for those that are still in
// the state in which they were found and still match. A job may change its state between the
// reading and do, so do should be a call that checks it, as [Job.Retry] and [Job.Promote] are. A
// nil do only counts the jobs. Limit defaults to the number of jobs that are read. EachMatch
// returns early, with what it has done until then, if ctx ends or if Redis can't be reached.
//
// Pass MatchResult.Next as After to continue. No job is left out that was in its state all the
// time, even if do moves jobs to other states. Jobs for which do has failed, or which it has
// left in their state, are not found again, unless many jobs left a list at the same time. After
// an error, call EachMatch again with the same After instead.
//
// Use it to retry, promote, remove or cancel many jobs. See the example.
func (q *Queue) EachMatch(ctx context.Context, search JobSearch, do func(ctx context.Context, job *Job) error) (*MatchResult, error) {
	if search.Limit == 0 {
		search.Limit = wire.MaxSafeInteger
	}
	s, err := q.newSearch(search)
	if err != nil {
		return nil, err
	}
	var found []match
	result := &MatchResult{}
	err = s.run(ctx, func(job *Job, state State, at backend.JobPosition) bool {
		found = append(found, match{at, state})
		return len(found) < s.limit
	})
	result.Matched, result.Next = len(found), s.next(nil)
	if err != nil {
		return result, fmt.Errorf("bullmq: search queue %s: %w", q.Name(), err)
	}
	if do == nil {
		return result, nil
	}
	done := map[string]bool{}
	err = s.handle(ctx, found, result, func(job *Job) {
		if err := do(ctx, job); err != nil {
			if result.Failed == nil {
				result.Failed = map[string]error{}
			}
			result.Failed[job.ID] = err
			return
		}
		result.Done++
		done[job.ID] = true
	})
	if err != nil {
		return result, fmt.Errorf("bullmq: handle the jobs that match in queue %s: %w", q.Name(), err)
	}
	result.Next = s.next(done)
	return result, nil
}

// match is a job that was found.
type match struct {
	at    backend.JobPosition
	state State
}

// matchesAtOnce is how many jobs are read again at once. With more, more of them would have
// changed when it is their turn.
const matchesAtOnce = 25

// handle passes the jobs to do that are still in their states and still match.
func (s *search) handle(ctx context.Context, found []match, result *MatchResult, do func(*Job)) error {
	drift := 0 // by which the jobs have moved in their list
	for begin := 0; begin < len(found); {
		end := begin + 1
		for end < len(found) && end-begin < matchesAtOnce && found[end].state == found[begin].state {
			end++
		}
		if begin > 0 && found[begin].state != found[begin-1].state {
			drift = 0
		}
		ids := make([]string, end-begin)
		for i, match := range found[begin:end] {
			ids[i] = match.at.ID
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		places, err := s.core.store.AreInState(ctx, backendState(found[begin].state), max(found[begin].at.Index+drift, 0), ids)
		if err != nil {
			return err
		}
		records, err := s.records(ctx, ids)
		if err != nil {
			return err
		}
		for i, record := range records {
			if places[i] < 0 || record == nil || !s.matches(record) {
				result.Gone++
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			drift = places[i] - found[begin+i].at.Index
			do(s.core.newJob(record))
		}
		begin = end
	}
	return nil
}

// search is a search in progress.
type search struct {
	core   *core
	states []State
	limit  int

	name, data, failure           string
	before, after                 time.Time
	finishedBefore, finishedAfter time.Time

	maxRead int
	maxTime time.Duration

	at     int                   // index of the state that is being read
	last   *backend.JobPosition  // in that state, of the job that was read last; nil at its begin
	others []string              // ids of jobs before last, the nearest first, in case that last is gone
	past   []backend.JobPosition // the jobs of that state that this search has read
	read   int                   // number of jobs that have been read, of all states
}

func (q *Queue) newSearch(o JobSearch) (*search, error) {
	fail := func(err error) (*search, error) { return nil, fmt.Errorf("bullmq: search queue %s: %w", q.Name(), err) }
	if err := q.core.checkStates("search the jobs", o.States); err != nil {
		return nil, err
	}
	for _, err := range []error{
		checkCount("JobSearch.Limit", o.Limit, "the default"), checkCount("JobSearch.MaxRead", o.MaxRead, "the default"),
		checkMillis("JobSearch.MaxTime", o.MaxTime, 0),
	} {
		if err != nil {
			return fail(err)
		}
	}
	s := &search{
		core: q.core, states: q.core.statesOf(o.States), limit: cmp.Or(o.Limit, searchLimit),
		name: o.Name, data: strings.ToLower(o.Data), failure: strings.ToLower(o.Error), before: o.AddedBefore, after: o.AddedAfter,
		finishedBefore: o.FinishedBefore, finishedAfter: o.FinishedAfter,
		maxRead: cmp.Or(o.MaxRead, searchMaxRead), maxTime: cmp.Or(o.MaxTime, searchMaxTime),
	}
	if o.After == "" {
		return s, nil
	}
	if err := s.continueAfter(o.After); err != nil {
		return fail(err)
	}
	return s, nil
}

// searchPosition is a JobSearch.After, as base64 of JSON.
type searchPosition struct {
	State State    `json:"s"`
	IDs   []string `json:"i,omitempty"` // of the job that was read last, and of others before it
	Index int      `json:"n,omitempty"` // of that job, in a list
	Score string   `json:"z,omitempty"` // of that job, in a set
}

// continueAfter sets where the search begins.
func (s *search) continueAfter(text string) error {
	var position searchPosition
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(decoded, &position)
	}
	s.at = slices.Index(s.states, position.State)
	score, number := strconv.ParseFloat(cmp.Or(position.Score, "0"), 64)
	if err != nil || s.at < 0 || position.Index < 0 || number != nil || score != score {
		return fmt.Errorf("JobSearch.After is %.80q; use the Next of a page of the same search", text)
	}
	if len(position.IDs) > 0 {
		s.last = &backend.JobPosition{ID: position.IDs[0], Index: position.Index, Score: position.Score}
		s.others = position.IDs[1:]
	}
	return nil
}

const (
	positionIDs      = 6   // how many jobs a position in a list names, besides those that were handled
	positionIDLength = 200 // of the ids that it names in addition
)

// next returns the JobSearch.After that continues. done are jobs that may have left their
// state since they were read.
func (s *search) next(done map[string]bool) string {
	if s.at >= len(s.states) {
		return ""
	}
	position := searchPosition{State: s.states[s.at]}
	if s.last != nil {
		position.IDs, position.Index, position.Score = []string{s.last.ID}, s.last.Index, s.last.Score
	}
	if s.last != nil && s.last.Score == "" {
		position.IDs = append(position.IDs, s.landmarks(done)...)
	}
	encoded, _ := json.Marshal(position) // has no value that could fail
	return base64.RawURLEncoding.EncodeToString(encoded)
}

// landmarks returns the ids of jobs before the last one, the nearest first. Those that follow
// are ever further apart, so that one of them is probably still in the list later.
func (s *search) landmarks(done map[string]bool) (ids []string) {
	var left, handled int
	distance, next := 0, 1
	for i := len(s.past) - 1; i >= 0 && left < positionIDs; i-- {
		id := s.past[i].ID
		if s.last != nil && id == s.last.ID || len(id) > positionIDLength {
			continue
		}
		if distance++; distance < next {
			continue
		}
		switch {
		case !done[id]:
			left++
		case handled < positionIDs/2:
			handled++
		default:
			continue // wait for one that was not handled
		}
		next = 2 * distance
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return s.others
	}
	return ids
}

// run reads jobs, and passes those that match to found. It ends when found returns false,
// when the budget is used, or after the last job.
func (s *search) run(ctx context.Context, found func(*Job, State, backend.JobPosition) (more bool)) error {
	began := time.Now()
	seen := map[string]bool{}
	for s.at < len(s.states) {
		state := s.states[s.at]
		size := min(searchPageSize, s.maxRead-s.read)
		if size <= 0 || time.Since(began) > s.maxTime {
			return nil
		}
		others := s.others
		if len(s.past) > 0 && s.last.Score == "" {
			others = s.landmarks(nil)
		}
		page, err := s.core.store.JobsAfter(ctx, backendState(state), s.last, others, size)
		if err != nil {
			return err
		}
		ids := make([]string, len(page))
		for i, at := range page {
			ids[i] = at.ID
		}
		records, err := s.records(ctx, ids)
		if err != nil {
			return err
		}
		for i, record := range records {
			s.last = &page[i]
			s.past = append(s.past, page[i])
			s.read++
			if seen[ids[i]] || record == nil || !s.matches(record) {
				continue
			}
			seen[ids[i]] = true
			if !found(s.core.newJob(record), state, page[i]) {
				return nil
			}
		}
		if len(ids) < size {
			s.at, s.last, s.others, s.past = s.at+1, nil, nil, nil
		}
	}
	return nil
}

// records reads jobs. A record is nil if there is no such job.
func (s *search) records(ctx context.Context, ids []string) ([]*backend.JobRecord, error) {
	refs := make([]backend.JobRef, len(ids))
	for i, id := range ids {
		refs[i] = backend.JobRef{Prefix: s.core.keys.prefix, Queue: s.core.keys.queue, ID: id}
	}
	return s.core.store.JobsOf(ctx, refs)
}

func (s *search) matches(record *backend.JobRecord) bool {
	switch {
	case s.name != "" && record.Name != s.name,
		!s.before.IsZero() && !record.Timestamp.Before(s.before),
		!s.after.IsZero() && !record.Timestamp.After(s.after),
		!s.finishedBefore.IsZero() && (record.FinishedOn.IsZero() || !record.FinishedOn.Before(s.finishedBefore)),
		!s.finishedAfter.IsZero() && !record.FinishedOn.After(s.finishedAfter),
		s.failure != "" && !strings.Contains(strings.ToLower(record.FailedReason), s.failure),
		s.data != "" && !strings.Contains(strings.ToLower(string(record.Data)), s.data):
		return false
	}
	return true
}
