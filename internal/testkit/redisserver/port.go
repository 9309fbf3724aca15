package redisserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Free ports are drawn from below the range that systems give to outgoing connections. A port from
// within that range could be taken by any connection of any program while its server is stopped,
// and the server couldn't come back on it.
const (
	firstPort = 12000
	portCount = 10000

	// busOffset is how far above its port a cluster node listens for the other nodes.
	busOffset = 10000
)

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens at this moment, nor on the
// cluster bus port that belongs to it.
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
