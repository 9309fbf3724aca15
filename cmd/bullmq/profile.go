package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// profileVariable names the profile that is used without --profile.
const profileVariable = "BULLMQ_PROFILE"

// profile is how to reach the queues of one Redis.
type profile struct {
	URL    string   `json:"url"`
	Prefix string   `json:"prefix"`
	TLS    tlsFiles `json:"tls"`
}

// configFile returns the path of the file with the profiles.
func configFile() (string, error) {
	directory := os.Getenv("XDG_CONFIG_HOME")
	if directory == "" {
		var err error
		if directory, err = os.UserConfigDir(); err != nil {
			return "", fmt.Errorf("bullmq: find the file with the profiles: %w; set XDG_CONFIG_HOME", err)
		}
	}
	return filepath.Join(directory, "bullmq", "config.json"), nil
}

// readProfile returns a profile of the file. Variables are replaced, and relative paths are those
// below the directory of the file.
func readProfile(name string) (profile, error) {
	path, err := configFile()
	if err != nil {
		return profile{}, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return profile{}, fmt.Errorf("bullmq: read the profile %s: there is no file %s; it should look like %s", shown(name), path, `{"profiles": {"NAME": {"url": "rediss://user:${REDIS_PASSWORD}@host:6379/0"}}}`)
	}
	if err != nil {
		return profile{}, fmt.Errorf("bullmq: read the profile %s: %w", shown(name), err)
	}
	var file struct {
		Profiles map[string]profile `json:"profiles"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return profile{}, fmt.Errorf("bullmq: read the profiles in %s: %s%w", path, lineOfError(text, err), err)
	}
	if decoder.More() {
		return profile{}, fmt.Errorf("bullmq: read the profiles in %s: there is more after the object", path)
	}
	for _, other := range file.Profiles {
		if err := checkSecret(path, other.URL); err != nil {
			return profile{}, err
		}
	}
	p, ok := file.Profiles[name]
	if !ok {
		names := slices.Sorted(maps.Keys(file.Profiles))
		return profile{}, fmt.Errorf("bullmq: there is no profile %s in %s; it has: %s", shown(name), path, shown(cmp.Or(strings.Join(names, ", "), "none")))
	}
	for _, field := range []struct {
		name  string
		value *string
		url   bool
		path  bool
	}{
		{"url", &p.URL, true, false},
		{"prefix", &p.Prefix, false, false},
		{"tls.ca", &p.TLS.CA, false, true},
		{"tls.cert", &p.TLS.Cert, false, true},
		{"tls.key", &p.TLS.Key, false, true},
		{"tls.serverName", &p.TLS.ServerName, false, false},
	} {
		if *field.value, err = expand(*field.value, field.url); err != nil {
			return profile{}, fmt.Errorf("bullmq: read %s of the profile %s in %s: %w", field.name, shown(name), path, err)
		}
		if field.path && *field.value != "" && !filepath.IsAbs(*field.value) {
			*field.value = filepath.Join(filepath.Dir(path), *field.value)
		}
	}
	return p, nil
}

// lineOfError returns where a text can't be decoded, for a message.
func lineOfError(text []byte, err error) string {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	offset := int64(0)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &mismatch):
		offset = mismatch.Offset
	default:
		return ""
	}
	return fmt.Sprintf("line %d: ", 1+bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n")))
}

// expand replaces ${NAME} with the variable of the environment; $${ is a literal ${. In the user
// and the password of an address, the value is escaped, so that it may have any characters.
func expand(text string, isURL bool) (string, error) {
	secretFrom, secretTo := len(text), 0
	if at, scheme := strings.LastIndexByte(text, '@'), strings.Index(text, "://"); isURL && scheme >= 0 && at > scheme {
		secretFrom, secretTo = scheme+3, at
	}
	var result strings.Builder
	for position := 0; position < len(text); {
		rest := text[position:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			result.WriteString("${")
			position += 3
		case strings.HasPrefix(rest, "${"):
			end := strings.IndexByte(rest, '}')
			if end < 0 {
				return "", errors.New("a ${ has no }; for a literal ${ write $${")
			}
			name := rest[2:end]
			value, ok := os.LookupEnv(name)
			if !ok {
				return "", fmt.Errorf("the environment variable %s is not set", shown(name))
			}
			if position >= secretFrom && position < secretTo {
				value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
			}
			result.WriteString(value)
			position += end + 1
		default:
			result.WriteByte(text[position])
			position++
		}
	}
	return result.String(), nil
}

// checkSecret returns an error if a file has the password of an address, and others may read it.
func checkSecret(path, address string) error {
	_, rest, _ := strings.Cut(address, "://")
	user := rest[:max(0, strings.LastIndexByte(rest, '@'))]
	_, password, _ := strings.Cut(user, ":")
	if password == "" || strings.HasPrefix(password, "${") && strings.HasSuffix(password, "}") && strings.Count(password, "{") == 1 {
		return nil
	}
	return checkPrivate(path, 0o044, "has a password")
}

// checkPrivate returns an error if a file has some of the permissions.
func checkPrivate(path string, forbidden fs.FileMode, what string) error {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&forbidden == 0 {
		return err
	}
	return fmt.Errorf("bullmq: the file %s %s, and other users may read it (%04o): run chmod 600 %s", path, what, info.Mode().Perm(), shellWord(path))
}
