package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"
	"net"
	"bufio"
	"strings"

	"github.com/redis/rueidis"
	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmq/scripts"
)

func med(x []float64) float64 { sort.Float64s(x); return x[len(x)/2] }

func main() {
	addr := "127.0.0.1:" + os.Args[1]
	mode := os.Args[2]
	ctx := context.Background()
	start := make(chan time.Time, 10)
	switch mode {
	case "worker":
		w, _ := bullmq.NewWorker("lat", func(context.Context, *bullmq.Job) (any, error) { start <- time.Now(); return nil, nil }, &bullmq.WorkerOptions{Connection: bullmq.URL("redis://" + addr)})
		go w.Run(ctx)
	case "inline":
		c, _ := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
		b, _ := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, AlwaysPipelining: os.Getenv("AP") == "1"})
		q := scripts.NewQueue(c, "bull:lat:", func(s string) string { return "bull:lat:" + s })
		go func() {
			wk := scripts.Worker{Token: "t", LockMs: 30000}
			for {
				tk, _ := q.Take(ctx, time.Now().UnixMilli(), wk)
				if tk.JobID == "" {
					b.Do(ctx, b.B().Bzpopmin().Key("bull:lat:marker").Timeout(5).Build())
					continue
				}
				start <- time.Now()
				q.Complete(ctx, scripts.Finish{JobID: tk.JobID, NowMs: time.Now().UnixMilli(), Token: "t", Value: "null", Keep: scripts.Keep{Count: "0"}})
			}
		}()
	case "raw":
		_ = net.Dial
		_ = bufio.NewReader
		_ = strings.Split
	}
	q, _ := bullmq.NewQueue("lat", &bullmq.QueueOptions{Connection: bullmq.URL("redis://" + addr)})
	time.Sleep(100 * time.Millisecond)
	var b1, b2 []float64
	for i := 0; i < 600; i++ {
		t0 := time.Now()
		q.Add(ctx, "x", nil, &bullmq.JobOptions{RemoveOnComplete: bullmq.RemoveAll()})
		t1 := time.Now()
		t2 := <-start
		b1 = append(b1, t1.Sub(t0).Seconds()*1e3)
		b2 = append(b2, t2.Sub(t0).Seconds()*1e3)
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Printf("%s add %.3f handler-after-add-start %.3f\n", mode, med(b1), med(b2))
}
