package bullmqhttp_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq"
	"github.com/17a2ac88/bullmq-go/bullmqhttp"
)

var _ = Describe("A Server of jobs in a bullmq.Server", func() {
	It("replies to requests that wait, and ends streams of events, when the bullmq.Server stops", func() {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		conn, err := bullmq.Connect(ctx, redis.URL())
		Expect(err).NotTo(HaveOccurred())
		defer conn.Close()
		server := bullmq.NewServer(conn, &bullmq.ServerOptions{Signals: []os.Signal{}})
		queue, err := server.Queue(ctx, fmt.Sprint("http-", queues.Add(1)), nil)
		Expect(err).NotTo(HaveOccurred())
		jobs := bullmqhttp.New(queue, &bullmqhttp.Options{Base: "/orders"})
		routes := http.NewServeMux()
		routes.Handle("POST /orders", bullmqhttp.Post(jobs, bill, byOrder))
		routes.Handle("/orders/", jobs)
		urls := make(chan string, 1)
		server.HandleHTTP(&http.Server{Addr: "127.0.0.1:0", Handler: routes, BaseContext: func(listener net.Listener) context.Context {
			urls <- "http://" + listener.Addr().String()
			return context.Background()
		}})
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx) }()
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		s := &service{queue, jobs, <-urls, &http.Client{Transport: transport}}
		location := s.order(`{"id":"7"}`).header.Get("Location")

		replies := make(chan int, 3)
		for _, part := range []string{"?wait=20", "/result?wait=20", "/events"} {
			go func() {
				defer GinkgoRecover()
				reply, err := s.client.Get(s.url + location + part)
				Expect(err).NotTo(HaveOccurred())
				_, err = io.Copy(io.Discard, reply.Body)
				Expect(err).NotTo(HaveOccurred())
				Expect(reply.Body.Close()).To(Succeed())
				replies <- reply.StatusCode
			}()
		}
		Eventually(func() int { return waiting("(*Queue).WaitForJob") }).Should(Equal(2))
		Eventually(func() int { return waiting("(*eventStream).send") }).Should(BeNumerically(">=", 1))
		begun := time.Now()
		stop()
		var all []int
		for range 3 {
			var status int
			Eventually(replies).Should(Receive(&status))
			all = append(all, status)
		}
		Expect(all).To(ConsistOf(http.StatusOK, http.StatusConflict, http.StatusOK))
		Eventually(ended).Should(Receive(BeNil()))
		Expect(time.Since(begun)).To(BeNumerically("<", 5*time.Second))
	})
})
