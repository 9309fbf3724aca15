package chaos

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Site is where the queue lives, as its clients are told: HOST:PORT,
// sentinel:MASTER@HOST:PORT,… or cluster:HOST:PORT,….
type Site struct {
	Address string
	Prefix  string // "bull", or with braces on a cluster
	Admin   string // where the account is read and faults are caused, HOST:PORT; Address unless given
}

// option is the site as rueidis takes it.
func (s Site) option() rueidis.ClientOption {
	option := rueidis.ClientOption{DisableCache: true}
	kind, nodes, _ := strings.Cut(s.Address, ":")
	switch kind {
	case "sentinel":
		option.Sentinel.MasterSet, nodes, _ = strings.Cut(nodes, "@")
		option.InitAddress = strings.Split(nodes, ",")
	case "cluster":
		option.InitAddress = strings.Split(nodes, ",")
	default:
		option.InitAddress, option.ForceSingleClient = []string{s.Address}, true
	}
	return option
}

// Connection is the site as this SDK takes it.
func (s Site) Connection() bullmq.Connection { return bullmq.Options(s.option()) }

// base is the key prefix of a queue.
func (s Site) base(queue string) string { return s.Prefix + ":" + queue + ":" }

// open is a client to look at the site with, and to cause faults by.
func (s Site) open() (rueidis.Client, error) {
	if s.Admin != "" {
		s.Address = s.Admin
	}
	return rueidis.NewClient(s.option())
}

// ask sends one command by itself.
func ask(ctx context.Context, client rueidis.Client, words ...string) error {
	if err := client.Do(ctx, client.B().Arbitrary(words...).Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return nil
}
