package dashboard

import "net/http"

// apiMetrics are the metrics of a queue, or of all.
type apiMetrics struct {
	Range   string      `json:"range"`
	Bucket  int64       `json:"bucket"` // length of a bucket
	Stored  bool        `json:"stored"`
	Buckets []apiBucket `json:"buckets"`

	Timed  *apiTimed        `json:"timed,omitempty"`  // of one queue
	Names  []apiNameMetrics `json:"names,omitempty"`  // of one queue
	Queues []apiFinished    `json:"queues,omitempty"` // of all queues
}

// apiTimed tells of which jobs the percentiles are.
type apiTimed struct {
	Jobs    int  `json:"jobs"`
	More    bool `json:"more"`
	Unknown int  `json:"unknown"`
}

type apiBucket struct {
	At         int64           `json:"at"`
	Completed  int             `json:"completed"`
	Failed     int             `json:"failed"`
	Partial    bool            `json:"partial"`
	Incomplete bool            `json:"incomplete"`
	Wait       *apiPercentiles `json:"wait,omitempty"`
	Run        *apiPercentiles `json:"run,omitempty"`
}

type apiPercentiles struct {
	Jobs int   `json:"jobs"`
	P50  int64 `json:"p50"`
	P95  int64 `json:"p95"`
	P99  int64 `json:"p99"`
	Max  int64 `json:"max"`
}

type apiNameMetrics struct {
	Name   string          `json:"name"`
	Jobs   int             `json:"jobs"`
	Failed int             `json:"failed"`
	Wait   *apiPercentiles `json:"wait,omitempty"`
	Run    *apiPercentiles `json:"run,omitempty"`
}

// apiFinished are the jobs of a queue that have finished.
type apiFinished struct {
	Name         string   `json:"name"`
	URL          string   `json:"url"`
	Completed    int      `json:"completed"`
	Failed       int      `json:"failed"`
	FailureRatio *float64 `json:"failureRatio"`
}

// apiMetrics returns a read of the metrics of a queue, or of all queues.
func (d *Dashboard) apiMetrics(read func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		content, err := read(r)
		if err != nil {
			return nil, err
		}
		return d.metricsJSON(content.(*metricsPage)), nil
	}
}

func (d *Dashboard) metricsJSON(page *metricsPage) apiMetrics {
	reply := apiMetrics{Range: page.Range, Stored: page.Stored, Buckets: []apiBucket{}}
	for _, of := range metricsRanges {
		if of.Name == page.Range {
			reply.Bucket = of.length().Milliseconds()
		}
	}
	for _, b := range page.Buckets {
		reply.Buckets = append(reply.Buckets, apiBucket{b.At.UnixMilli(), b.Completed, b.Failed, b.Partial, b.Before, percentilesJSON(b.Wait), percentilesJSON(b.Run)})
	}
	if page.Queue != "" {
		reply.Timed = &apiTimed{page.Jobs, page.More, page.Unknown}
		for _, n := range page.Names {
			reply.Names = append(reply.Names, apiNameMetrics{cut(n.Name, 1000), n.Jobs, n.Failed, percentilesJSON(n.Wait), percentilesJSON(n.Run)})
		}
		return reply
	}
	for _, row := range page.Queues {
		finished := apiFinished{text(row.Name), d.link("api", "v1", "queues", row.Name, "metrics"), sum(row.Done()), sum(row.Lost()), nil}
		if row.FailureRatio >= 0 {
			finished.FailureRatio = &row.FailureRatio
		}
		reply.Queues = append(reply.Queues, finished)
	}
	return reply
}

// percentilesJSON returns nil if there are no durations.
func percentilesJSON(p percentiles) *apiPercentiles {
	if p.N == 0 {
		return nil
	}
	return &apiPercentiles{p.N, p.P50.Milliseconds(), p.P95.Milliseconds(), p.P99.Milliseconds(), p.Max.Milliseconds()}
}
