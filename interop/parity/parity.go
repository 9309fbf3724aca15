// Package parity compares this SDK with the reference library. Two drivers, small programs on top of one
// library each, run the same requests on separate Redis servers. After every request their responses
// and the complete keyspaces must be equal.
//
// A [Runner] runs scenarios step by step on two endpoints. The rules of equality are in the files named after
// what they compare: values, responses, times and expiries. This package knows BullMQ's names of JSON fields
// but none of its rules, so that a misunderstanding of the protocol cannot affect both the SDK and its test.
package parity
