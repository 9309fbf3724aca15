package bullmqhttp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
)

const (
	randomPrefix = "rq-" // of an id that can't be guessed
	keyPrefix    = "ik-" // of an id that an idempotency key determines
	idLength     = 22    // of the rest of an id: 132 bits
)

// newID returns a random id.
func newID() string {
	random := make([]byte, 17)
	_, _ = rand.Read(random) // never fails
	return randomPrefix + base64.RawURLEncoding.EncodeToString(random)[:idLength]
}

// keyID returns the id of the job with an idempotency key. The owner and the route are part of it, so
// clients can't find each other's jobs.
func keyID(owner, route, key string) string { return keyPrefix + digest(owner, route, key)[:idLength] }

// isID reports whether newID or keyID may have made an id.
func isID(id string) bool {
	rest, random := strings.CutPrefix(id, randomPrefix)
	if !random {
		keyed := false
		if rest, keyed = strings.CutPrefix(id, keyPrefix); !keyed {
			return false
		}
	}
	return len(rest) == idLength && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// digest returns the SHA-256 of texts, each with its length.
func digest(texts ...string) string {
	hash := sha256.New()
	var length [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		hash.Write(length[:])
		hash.Write([]byte(text))
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil))
}

// maxKey is the maximum length of an idempotency key.
const maxKey = 255

// idempotencyKey returns the Idempotency-Key of a request, or "". The key may be in quotes, as the
// draft of the IETF has it, or without.
func idempotencyKey(r *http.Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := strings.TrimSpace(values[0])
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		key = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(key[1 : len(key)-1])
	}
	valid := len(values) == 1 && key != "" && len(key) <= maxKey
	for _, c := range []byte(key) {
		valid = valid && c >= ' ' && c <= '~'
	}
	if !valid {
		return "", problem(http.StatusBadRequest, CodeInvalidRequest, "the Idempotency-Key must be one value of 1 to %d ASCII characters", maxKey)
	}
	return key, nil
}
