// Package parity holds this SDK against the reference library. Two drivers, small programs over one
// library each, take the same instructions on a Redis of their own; after every instruction the two
// answers and the two whole keyspaces must be alike.
//
// A Runner takes two sides and runs scenarios on both, step by step. What alike means is written in
// the files named after what they compare: keyspace values, answers, times and expiries. Nothing
// here knows BullMQ's rules, only its names for fields that hold JSON, so that a mistake about the
// protocol can't be made twice.
package parity
