package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/redisconn"
	"github.com/17a2ac88/bullmq-go/internal/testkit/redisserver"
)

// BenchmarkGroupWait measures a wait for many markers, from its begin until it is
// interrupted. Redis registers the client at each key and removes it again.
func BenchmarkGroupWait(b *testing.B) {
	for _, n := range []int{1, 100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("%d_keys", n), func(b *testing.B) {
			client, waiter := openForBenchmark(b)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("bull:tenant-%d:marker", i)
			}
			before := redisCPU(b, client)
			for b.Loop() {
				waiter.Begin()
				interrupted := make(chan struct{})
				go func() { waiter.Interrupt(); close(interrupted) }()
				if wake := waiter.Wait(10*time.Second, keys); wake.Err != nil || wake.Woken {
					b.Fatalf("%+v", wake)
				}
				waiter.End()
				<-interrupted
			}
			b.ReportMetric(float64((redisCPU(b, client)-before).Nanoseconds())/float64(b.N)/1000, "redis-CPU-µs/op")
		})
	}
}

func openForBenchmark(b *testing.B) (*redisconn.Client, *GroupWaiter) {
	server, err := redisserver.Start(redisserver.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	conn, err := redisconn.Dial(context.Background(), rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		b.Fatal(err)
	}
	client := conn.NewClient("bull:tenant-0:meta", true)
	b.Cleanup(client.Close)
	waiter := NewGroupWaiter(client, client.NewBlocking("many", func(int) {}))
	b.Cleanup(waiter.Close)
	waiter.Begin()
	defer waiter.End()
	if wake := waiter.Wait(time.Millisecond, []string{"bull:tenant-0:marker"}); wake.Err != nil { // opens the connection
		b.Fatal(wake.Err)
	}
	return client, waiter
}

var usedCPU = regexp.MustCompile(`used_cpu_(?:user|sys):([\d.]+)`)

// redisCPU returns the CPU time that the server has used.
func redisCPU(b *testing.B, client *redisconn.Client) time.Duration {
	info, err := client.Do(context.Background(), client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	seconds := 0.0
	for _, found := range usedCPU.FindAllStringSubmatch(info, -1) {
		n, _ := strconv.ParseFloat(found[1], 64)
		seconds += n
	}
	return time.Duration(seconds * float64(time.Second))
}
