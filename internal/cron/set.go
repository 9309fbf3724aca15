package cron

import "math/bits"

// set holds numbers from 0 to 63: the values that a field allows.
type set uint64

func (s set) has(n int) bool { return s>>n&1 == 1 }

func (s *set) add(n int) { *s |= 1 << n }

// above returns the smallest member greater than n.
func (s set) above(n int) (int, bool) {
	s &= ^set(0) << (n + 1)
	return bits.TrailingZeros64(uint64(s)), s != 0
}

// below returns the greatest member less than n.
func (s set) below(n int) (int, bool) {
	s &= 1<<n - 1
	return s.max(), s != 0
}

func (s set) min() int { return bits.TrailingZeros64(uint64(s)) }

func (s set) max() int { return bits.Len64(uint64(s)) - 1 }
