package bullmqpush_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// dnsServer is a DNS server on UDP that has addresses for all names.
type dnsServer struct {
	connection net.PacketConn
	addresses  func(name string, lookups int) []string

	mu      sync.Mutex
	lookups map[string]int // of addresses of IPv4, by name
}

// startDNS starts a server and returns it with a resolver that asks it. addresses returns the
// addresses of a name, for which lookups tells how often it was asked before.
func startDNS(addresses func(name string, lookups int) []string) (*dnsServer, *net.Resolver) {
	GinkgoHelper()
	connection, err := net.ListenPacket("udp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	s := &dnsServer{connection: connection, addresses: addresses, lookups: map[string]int{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve()
	}()
	DeferCleanup(func() {
		Expect(connection.Close()).To(Succeed())
		Eventually(ended).Should(BeClosed())
	})
	return s, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", connection.LocalAddr().String())
	}}
}

// count returns how often the addresses of a name were asked for.
func (s *dnsServer) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookups[name]
}

func (s *dnsServer) serve() {
	packet := make([]byte, 1500)
	for {
		n, from, err := s.connection.ReadFrom(packet)
		if err != nil {
			return
		}
		if reply := s.reply(packet[:n]); reply != nil {
			_, _ = s.connection.WriteTo(reply, from)
		}
	}
}

const (
	typeA    = 1
	typeAAAA = 28
)

// reply returns the answer to a question: its header and its question, with a record for each
// address of the asked type.
func (s *dnsServer) reply(question []byte) []byte {
	const header = 12
	var labels []string
	at := header
	for at < len(question) && question[at] != 0 {
		end := at + 1 + int(question[at])
		if end > len(question) {
			return nil
		}
		labels, at = append(labels, string(question[at+1:end])), end
	}
	if at+5 > len(question) {
		return nil
	}
	asked := binary.BigEndian.Uint16(question[at+1:])
	name := strings.Join(labels, ".")
	s.mu.Lock()
	lookups := s.lookups[name]
	if asked == typeA {
		s.lookups[name]++
	}
	s.mu.Unlock()

	answers := uint16(0)
	var records []byte
	for _, text := range s.addresses(name, lookups) {
		address := netip.MustParseAddr(text)
		if address.Is4() && asked != typeA || address.Is6() && asked != typeAAAA {
			continue
		}
		answers++
		records = append(records, 0xc0, header) // the name is that of the question
		records = binary.BigEndian.AppendUint16(records, asked)
		records = binary.BigEndian.AppendUint16(records, 1) // Internet
		records = binary.BigEndian.AppendUint32(records, 0) // may not be kept
		records = binary.BigEndian.AppendUint16(records, uint16(address.BitLen()/8))
		records = append(records, address.AsSlice()...)
	}
	reply := append([]byte{}, question[:2]...)
	reply = append(reply, 0x85, 0x80) // an answer with authority, without an error
	reply = append(reply, 0, 1)       // one question
	reply = binary.BigEndian.AppendUint16(reply, answers)
	reply = append(reply, 0, 0, 0, 0)
	reply = append(reply, question[header:at+5]...)
	return append(reply, records...)
}
