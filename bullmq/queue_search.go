package bullmq

import (
	"cmp"
	"context"
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
// continue. Redis serves other clients in between. A job that changes its state during the
// search may be found twice, or not at all. Jobs that are added meanwhile are not found.
func (q *Queue) Search(ctx context.Context, search JobSearch) (*JobPage, error) {
	s, err := q.newSearch(search)
	if err != nil {
		return nil, err
	}
	page := &JobPage{}
	err = s.run(ctx, func(job *Job, state State) (more bool) {
		page.Jobs, page.States = append(page.Jobs, job), append(page.States, state)
		return len(page.Jobs) < s.limit
	})
	if err != nil {
		return nil, fmt.Errorf("bullmq: search queue %s: %w", q.Name(), err)
	}
	page.Read, page.Next = s.read, s.next()
	return page, nil
}

// MatchResult tells what [Queue.EachMatch] has done.
type MatchResult struct {
	Matched int // number of jobs that matched
	Done    int // number of jobs for which do returned no error
	Gone    int // number of jobs that no longer matched when it was their turn
	// Failed has the error of each job for which do has failed.
	Failed map[string]error
	// Next is the After that continues. It is "" if all jobs have been read. It counts the jobs
	// that were read, so it skips jobs if do has moved others out of their state. Then search
	// again without After, and with a larger MaxRead.
	Next string
}

// EachMatch calls do for each job that the search finds. First it searches, and keeps the
// ids. Then it reads each job again, and calls do if the job is still in the state in which
// it was found and still matches. A nil do only counts the jobs. Limit defaults to the
// number of jobs that are read. EachMatch returns early, with what it has done until then,
// if ctx ends or if Redis can't be reached.
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
	type match struct {
		id    string
		state State
	}
	var found []match
	result := &MatchResult{}
	err = s.run(ctx, func(job *Job, state State) bool {
		found = append(found, match{job.ID, state})
		return len(found) < s.limit
	})
	result.Matched, result.Next = len(found), s.next()
	if err != nil {
		return result, fmt.Errorf("bullmq: search queue %s: %w", q.Name(), err)
	}
	if do == nil {
		return result, nil
	}
	for _, match := range found {
		if err := ctx.Err(); err != nil {
			return result, fmt.Errorf("bullmq: handle the jobs that match in queue %s: %w", q.Name(), context.Cause(ctx))
		}
		record, state, _, err := q.core.store.JobAndState(ctx, match.id, false)
		if err != nil {
			return result, fmt.Errorf("bullmq: handle the jobs that match in queue %s: job %s: %w", q.Name(), match.id, err)
		}
		if record == nil || State(state) != match.state || !s.matches(record) {
			result.Gone++
			continue
		}
		if err := do(ctx, q.core.newJob(record)); err != nil {
			if result.Failed == nil {
				result.Failed = map[string]error{}
			}
			result.Failed[match.id] = err
			continue
		}
		result.Done++
	}
	return result, nil
}

// search is a search in progress.
type search struct {
	core   *core
	states []State
	limit  int

	name, data, failure string
	before, after       time.Time

	maxRead int
	maxTime time.Duration

	at, offset int // the state that is being read, and the number of its jobs that have been
	read       int // number of jobs that have been read, of all states
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
		maxRead: cmp.Or(o.MaxRead, searchMaxRead), maxTime: cmp.Or(o.MaxTime, searchMaxTime),
	}
	if o.After == "" {
		return s, nil
	}
	state, offset, _ := strings.Cut(o.After, ":")
	var err error
	s.at = slices.Index(s.states, State(state))
	if s.offset, err = strconv.Atoi(offset); err != nil || s.at < 0 || s.offset < 0 {
		return fail(fmt.Errorf("JobSearch.After is %.80q; use the Next of a page of the same search", o.After))
	}
	return s, nil
}

// next returns the JobSearch.After that continues.
func (s *search) next() string {
	if s.at >= len(s.states) {
		return ""
	}
	return string(s.states[s.at]) + ":" + strconv.Itoa(s.offset)
}

// run reads jobs, and passes those that match to found. It ends when found returns false,
// when the budget is used, or after the last job.
func (s *search) run(ctx context.Context, found func(*Job, State) (more bool)) error {
	began := time.Now()
	seen := map[string]bool{}
	for s.at < len(s.states) {
		state := s.states[s.at]
		size := min(searchPageSize, s.maxRead-s.read)
		if size <= 0 || time.Since(began) > s.maxTime {
			return nil
		}
		ids, err := s.core.store.JobIDs(ctx, backend.Page{From: s.offset, To: s.offset + size - 1}, backendState(state))
		if err != nil {
			return err
		}
		records, err := s.records(ctx, ids)
		if err != nil {
			return err
		}
		for i, record := range records {
			s.offset++
			s.read++
			if seen[ids[i]] || record == nil || !s.matches(record) {
				continue
			}
			seen[ids[i]] = true
			if !found(s.core.newJob(record), state) {
				return nil
			}
		}
		if len(ids) < size {
			s.at, s.offset = s.at+1, 0
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
		s.failure != "" && !strings.Contains(strings.ToLower(record.FailedReason), s.failure),
		s.data != "" && !strings.Contains(strings.ToLower(string(record.Data)), s.data):
		return false
	}
	return true
}
