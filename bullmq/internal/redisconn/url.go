package redisconn

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// ParseURL parses a redis://, rediss:// or unix:// address.
func ParseURL(address string) (rueidis.ClientOption, error) {
	err := checkAt(address)
	var option rueidis.ClientOption
	if err == nil {
		option, err = rueidis.ParseURL(address)
	}
	if err != nil {
		return option, fmt.Errorf("bullmq: connect: the Redis address %q can't be read: %w; it should look like redis://user:password@host:6379/0", HidePassword(address), withoutURL(err))
	}
	return option, nil
}

// checkAt returns an error if the password in an address contains a character that ends the
// host part of a URL. Otherwise a part of the password would be used, and shown, as the host.
func checkAt(address string) error {
	_, rest, _ := strings.Cut(address, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return errors.New("an @ comes after /, ? or #; write those as %2F, %3F and %23 in a password")
	}
	return nil
}

// HidePassword replaces user and password in an address with asterisks.
func HidePassword(address string) string {
	at := strings.LastIndexByte(address, '@')
	scheme := strings.Index(address, "://")
	switch {
	case at < 0:
		return address
	case scheme < 0 || scheme+3 > at:
		return "***" + address[at:]
	}
	return address[:scheme+3] + "***" + address[at:]
}

// withoutURL removes the address from an error of url.Parse, because it may contain
// the password.
func withoutURL(err error) error {
	var escape url.EscapeError
	if errors.As(err, &escape) {
		return errors.New("a % in it begins no escape; write %25 for a percent sign")
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
