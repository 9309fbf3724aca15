package cron

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ZoneError is returned for an unknown time zone.
type ZoneError struct {
	Name string
	Err  error
}

func (e *ZoneError) Error() string {
	return fmt.Sprintf("time zone %q: %v: use an IANA name such as \"Europe/Paris\", \"UTC\", or an offset such as \"UTC+3\"; on a machine without a time zone database import _ \"time/tzdata\"", e.Name, e.Err)
}

func (e *ZoneError) Unwrap() error { return e.Err }

var errUnknownZone = errors.New("unknown")

// LoadZone returns the zone of BullMQ's option tz, or a [*ZoneError]. It accepts the names of the IANA
// database in any case, the old names and abbreviations that Node accepts ("PST", "IST"), "utc", and offsets
// such as "UTC+3" and "utc-5:30". The names "local", "system", "default" and "" denote the machine's zone.
// Names that begin with SystemV/, which Node accepts, are not supported.
//
// The rules of a zone come from the machine's database, or from the one named by ZONEINFO. A program for a
// machine without one, such as a minimal container, imports time/tzdata, which embeds a copy. Otherwise it
// rejects schedules that Node workers, which ship their own database, continue to serve. Both must have the
// same rules to agree. When a country changes its clocks, both need an update. Rules before 1970 may differ
// in any case.
func LoadZone(name string) (*time.Location, error) {
	if zone, ok := loadedZones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := findZone(name)
	if err != nil {
		return nil, &ZoneError{name, err}
	}
	loadedZones.Store(name, zone)
	return zone, nil
}

// loadedZones caches zones: a schedule needs its zone at each run, and loading one is slow.
var loadedZones sync.Map

func findZone(name string) (*time.Location, error) {
	lower := strings.ToLower(name)
	switch lower {
	case "", "local", "system", "default":
		return time.Local, nil
	case "utc", "gmt":
		return time.UTC, nil
	}
	if found := offsetName.FindStringSubmatch(lower); found != nil {
		return fixedZone(found[1], found[2], found[3]), nil
	}
	if iana, ok := abbreviations[lower]; ok {
		return time.LoadLocation(iana)
	}
	// Go accepts any file of the database as a zone.
	switch folder, _, _ := strings.Cut(lower, "/"); folder {
	case "posix", "right", "factory", "localtime", "posixrules":
		return nil, errUnknownZone
	}
	for _, spelling := range []string{name, properCase(lower), strings.ToUpper(name)} {
		if zone, err := time.LoadLocation(spelling); err == nil {
			return zone, nil
		}
	}
	return nil, errUnknownZone
}

var offsetName = regexp.MustCompile(`^utc([+-])([0-9]{1,2})(?::([0-9]{2}))?$`)

func fixedZone(sign, hours, minutes string) *time.Location {
	h, _ := strconv.Atoi(hours)
	m, _ := strconv.Atoi(minutes)
	offset := h*3600 + m*60
	if sign == "-" {
		offset = -offset
	}
	return time.FixedZone("UTC"+sign+hours, offset)
}

// abbreviations are names that Node accepts and the IANA database lacks.
var abbreviations = map[string]string{
	"act": "Australia/Darwin", "aet": "Australia/Sydney", "agt": "America/Buenos_Aires", "art": "Africa/Cairo",
	"ast": "America/Anchorage", "bet": "America/Sao_Paulo", "bst": "Asia/Dhaka", "cat": "Africa/Maputo",
	"cnt": "America/St_Johns", "cst": "America/Chicago", "ctt": "Asia/Shanghai", "eat": "Africa/Nairobi",
	"ect": "Europe/Paris", "iet": "America/Indianapolis", "ist": "Asia/Calcutta", "jst": "Asia/Tokyo",
	"mit": "Pacific/Apia", "net": "Asia/Yerevan", "nst": "Pacific/Auckland", "plt": "Asia/Karachi",
	"pnt": "America/Phoenix", "prt": "America/Puerto_Rico", "pst": "America/Los_Angeles", "sst": "Pacific/Guadalcanal",
	"vst": "Asia/Saigon", "us/pacific-new": "America/Los_Angeles",
}

var (
	// nameWord matches the letters that are capital in most names.
	nameWord = regexp.MustCompile(`(?:^|[/_-])[a-z]`)
	// oddWords are the words that are spelled differently.
	oddWords = strings.NewReplacer(
		"_Es_", "_es_", "_Of_", "_of_", "-Au-", "-au-", "/Comodrivadavia", "/ComodRivadavia", "Knox_In", "Knox_IN",
		"/Dumontdurville", "/DumontDUrville", "/Mcmurdo", "/McMurdo", "Australia/Act", "Australia/ACT",
		"Australia/Lhi", "Australia/LHI", "Australia/Nsw", "Australia/NSW", "/Denoronha", "/DeNoronha",
		"/Easterisland", "/EasterIsland", "Gb-Eire", "GB-Eire", "/Bajanorte", "/BajaNorte", "/Bajasur", "/BajaSur",
		"Us/", "US/", "Etc/Gmt", "Etc/GMT", "Etc/Utc", "Etc/UTC", "Etc/Uct", "Etc/UCT",
	)
)

// properCase returns the database's spelling of a zone name in lower case.
func properCase(lower string) string {
	return oddWords.Replace(nameWord.ReplaceAllStringFunc(lower, strings.ToUpper))
}
