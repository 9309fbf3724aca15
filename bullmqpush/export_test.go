package bullmqpush

// NewTicket returns the last part of an address for callbacks.
func NewTicket(signedBy, queue, jobID, token string) string {
	keys, err := parseKeys([]string{signedBy})
	if err != nil {
		panic(err)
	}
	return ticket{queue, jobID, token}.encode(keys[0])
}
