package bullmqpush

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// ticket is the permission to make callbacks for one attempt of a job. It holds the token of
// the lock, so it is void when the attempt has ended. It is signed, because other tokens of
// the same worker can be guessed.
type ticket struct{ queue, jobID, token string }

// ticketID is what is signed in place of a message's id. No message has this id.
const ticketID = "callback."

var ticketEncoding = base64.RawURLEncoding.Strict()

func (t ticket) encode(k key) string {
	content, _ := json.Marshal([]string{t.queue, t.jobID, t.token})
	return ticketEncoding.EncodeToString(content) + "." + ticketEncoding.EncodeToString(k.sign(ticketID, "", content))
}

// parseTicket decodes a ticket. It returns false unless one of the keys has signed it.
func parseTicket(keys []key, text string) (ticket, bool) {
	encoded, signature, _ := strings.Cut(text, ".")
	content, err := ticketEncoding.DecodeString(encoded)
	if err != nil {
		return ticket{}, false
	}
	given, err := ticketEncoding.DecodeString(signature)
	if err != nil {
		return ticket{}, false
	}
	valid := false
	for _, k := range keys {
		if hmac.Equal(given, k.sign(ticketID, "", content)) {
			valid = true
		}
	}
	var fields []string
	if !valid || json.Unmarshal(content, &fields) != nil || len(fields) != 3 {
		return ticket{}, false
	}
	return ticket{fields[0], fields[1], fields[2]}, true
}
