package redisserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Free ports are chosen below the ephemeral range. Otherwise, while a server is stopped, an outgoing connection of
// any program could occupy its port.
const (
	firstPort = 12000
	portCount = 10000

	// busOffset is the distance between the port of a cluster node and its bus port.
	busOffset = 10000
)

// FreePort returns a TCP port of 127.0.0.1 that is free together with its cluster bus port.
func FreePort() (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(portCount)
		if free(port) && free(port+busOffset) {
			return port, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1 between " +
		fmt.Sprintf("%d and %d", firstPort, firstPort+portCount-1) + " after 200 tries")
}

func free(port int) bool {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
