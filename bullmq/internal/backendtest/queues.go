package backendtest

import (
	"strings"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/17a2ac88/bullmq-go/bullmq/internal/backend"
)

func (s *suite) queues() {
	ginkgo.It("finds the queues with a prefix, each once, until the caller has seen enough", func() {
		var added []string
		for _, queue := range s.members(5) {
			s.fill(queue, &backend.Add{ID: "a", Name: "a"})
			added = append(added, strings.TrimSuffix(strings.TrimPrefix(queue.key, s.Prefix+":"), ":"))
		}
		var found []string
		Expect(s.Queues.EachQueue(s.ctx, s.Prefix, func(names []string) bool {
			found = append(found, names...)
			return true
		})).To(Succeed())
		for _, name := range added {
			Expect(found).To(ContainElement(name))
		}
		seen := map[string]bool{}
		for _, name := range found {
			Expect(seen).NotTo(HaveKey(name))
			seen[name] = true
		}
		calls := 0
		Expect(s.Queues.EachQueue(s.ctx, s.Prefix, func([]string) bool { calls++; return false })).To(Succeed())
		Expect(calls).To(Equal(1))
		Expect(s.Queues.EachQueue(s.ctx, s.Prefix+"-none", func([]string) bool { panic("there is no such queue") })).To(Succeed())
	})
}
