package bullmqpush

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	keyPrefix = "whsec_" // of a key as text, as in Standard Webhooks
	// Sizes of a key in bytes, as in Standard Webhooks.
	minKey, maxKey = 24, 64
	// The scheme of a signature: HMAC with SHA-256.
	scheme = "v1,"
)

// key is a decoded key.
type key []byte

// NewKey returns a random key, as text that begins with whsec_.
func NewKey() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never returns an error
	return keyPrefix + base64.StdEncoding.EncodeToString(random[:])
}

// parseKeys decodes keys. Its errors don't contain them.
func parseKeys(texts []string) ([]key, error) {
	if len(texts) == 0 {
		return nil, errors.New("there is no key")
	}
	keys := make([]key, len(texts))
	for i, text := range texts {
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, keyPrefix))
		if err != nil {
			return nil, fmt.Errorf("key %d of %d is not whsec_ and base64", i+1, len(texts))
		}
		if len(decoded) < minKey || len(decoded) > maxKey {
			return nil, fmt.Errorf("key %d of %d has %d bytes; use %d to %d", i+1, len(texts), len(decoded), minKey, maxKey)
		}
		keys[i] = decoded
	}
	return keys, nil
}

// sameKey reports whether two texts are the same key. A key may have several texts, for instance without
// its prefix.
func sameKey(a, b string) bool {
	keys, err := parseKeys([]string{a, b})
	return err == nil && hmac.Equal(keys[0], keys[1])
}

// sign returns one signature, without its scheme.
func (k key) sign(id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// signatures returns the header webhook-signature: a signature for each key.
func signatures(keys []key, id, timestamp string, body []byte) string {
	var all []string
	for _, k := range keys {
		all = append(all, scheme+base64.StdEncoding.EncodeToString(k.sign(id, timestamp, body)))
	}
	return strings.Join(all, " ")
}

// Sign returns the value of the header webhook-signature for a message, with a signature
// for each key. It is for tests of receivers. The headers webhook-id and webhook-timestamp
// must be id and the Unix time of at in seconds.
func Sign(keys []string, id string, at time.Time, body []byte) (string, error) {
	parsed, err := parseKeys(keys)
	if err != nil {
		return "", fmt.Errorf("bullmqpush: sign a message: %w", err)
	}
	return signatures(parsed, id, strconv.FormatInt(at.Unix(), 10), body), nil
}

// signedBy reports whether a header webhook-signature has a valid signature by one of the
// keys. It takes the same time for all wrong signatures.
func signedBy(keys []key, header, id, timestamp string, body []byte) bool {
	own := make([][]byte, len(keys))
	for i, k := range keys {
		own[i] = k.sign(id, timestamp, body)
	}
	valid := false
	for _, text := range strings.Fields(header) {
		encoded, known := strings.CutPrefix(text, scheme)
		given, err := base64.StdEncoding.DecodeString(encoded)
		if !known || err != nil {
			continue
		}
		for _, signature := range own {
			if hmac.Equal(given, signature) {
				valid = true
			}
		}
	}
	return valid
}
