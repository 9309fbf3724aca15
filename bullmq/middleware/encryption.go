package middleware

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/17a2ac88/bullmq-go/bullmq"
)

// Encryption encrypts the data of jobs with AES-GCM. Redis, dashboards and workers without
// the key see {"enc":1,"kid":…,"iv":…,"data":…} in place of the data. Name, options,
// progress, result and logs are not encrypted.
//
// kid names the key. iv is the nonce of 12 bytes. data is the encrypted JSON, followed by the
// tag of 16 bytes. Both are in base64. The additional authenticated data is the name of the
// job. So the data of a job is not accepted as the data of a job with another name.
//
// To rotate keys, first add the new key to all workers. Then let the producers encrypt with
// the new key. Remove the old key when no job encrypted with it is left.
type Encryption struct {
	current string
	keys    map[string]cipher.AEAD
}

// NewEncryption returns an Encryption that encrypts with the key named current and
// decrypts with all keys. A key has 16, 24 or 32 bytes.
func NewEncryption(current string, keys map[string][]byte) (*Encryption, error) {
	e := &Encryption{current: current, keys: map[string]cipher.AEAD{}}
	for id, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("middleware: encryption key %q: it must have 16, 24 or 32 bytes: %w", id, err)
		}
		if e.keys[id], err = cipher.NewGCM(block); err != nil {
			return nil, fmt.Errorf("middleware: encryption key %q: %w", id, err)
		}
	}
	if e.keys[current] == nil {
		return nil, fmt.Errorf("middleware: encryption: there is no key %q among the keys", current)
	}
	return e, nil
}

// envelope is the stored form of encrypted data.
type envelope struct {
	Version int    `json:"enc"`
	KeyID   string `json:"kid"`
	Nonce   []byte `json:"iv"`
	Data    []byte `json:"data"`
}

// Add is the middleware of adds. It encrypts the data of each job. Place it last, so that
// other middleware sees the data unencrypted.
func (e *Encryption) Add(next bullmq.AddFunc) bullmq.AddFunc {
	return func(ctx context.Context, jobs []*bullmq.NewJob) error {
		for _, job := range jobs {
			sealed, err := e.seal(job)
			if err != nil {
				return err
			}
			job.Data = sealed
		}
		return next(ctx, jobs)
	}
}

func (e *Encryption) seal(job *bullmq.NewJob) (*envelope, error) {
	plain, err := job.EncodeData()
	if err != nil {
		return nil, err
	}
	aead := e.keys[e.current]
	sealed := &envelope{Version: 1, KeyID: e.current, Nonce: make([]byte, aead.NonceSize())}
	_, _ = rand.Read(sealed.Nonce) // never fails
	sealed.Data = aead.Seal(nil, sealed.Nonce, plain, []byte(job.Name))
	return sealed, nil
}

// Handle is the middleware of handlers. While the handler runs, Data of its job is
// decrypted. Data that is not encrypted is left as it is, so that you can introduce
// encryption in one producer after the other. Data that can't be decrypted fails the attempt.
//
// [bullmq.Job.UpdateData] stores data without encryption.
func (e *Encryption) Handle(next bullmq.Handler) bullmq.Handler {
	return func(ctx context.Context, job *bullmq.Job) (any, error) {
		var sealed envelope
		if json.Unmarshal(job.Data, &sealed) != nil || sealed.Version == 0 {
			return next(ctx, job)
		}
		plain, err := e.open(job.Name, &sealed)
		if err != nil {
			return nil, fmt.Errorf("middleware: decrypt the data of job %s (%s): %w", job.ID, job.Name, err)
		}
		stored := job.Data
		job.Data = plain
		defer func() { job.Data = stored }()
		return next(ctx, job)
	}
}

func (e *Encryption) open(name string, sealed *envelope) ([]byte, error) {
	aead := e.keys[sealed.KeyID]
	switch {
	case sealed.Version != 1:
		return nil, fmt.Errorf("its form %d is unknown", sealed.Version)
	case aead == nil:
		return nil, fmt.Errorf("key %q is missing: give it to NewEncryption", sealed.KeyID)
	case len(sealed.Nonce) != aead.NonceSize():
		return nil, fmt.Errorf("its nonce has %d bytes instead of %d", len(sealed.Nonce), aead.NonceSize())
	}
	return aead.Open(nil, sealed.Nonce, sealed.Data, []byte(name))
}
