package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const theirs = `
--[[ Adds a job.
  in two lines ]]
local id = rcall("INCR", KEYS[1])
if id > 5 then
  rcall("HSET", KEYS[2], "a", 1)
  rcall("HSET", KEYS[2], "b", 2)
end
for i, job in ipairs(ARGV) do
  rcall("LPUSH", KEYS[3], job)
end
return id
`

func compareTexts(t *testing.T, ours string) (runs int, output string) {
	t.Helper()
	own, reference := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(own, "ours.lua"):         ours,
		filepath.Join(reference, "theirs.lua"): theirs,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	runs, err := compare(&out, own, reference, 5)
	if err != nil {
		t.Fatal(err)
	}
	return runs, out.String()
}

func TestEqualLinesAreFoundUnderOtherNamesSpacesAndComments(t *testing.T) {
	runs, output := compareTexts(t, `
local job = redis.call( "INCR", KEYS[1] ) -- the next id
if job>5 then
  -- two fields
  call("HSET", KEYS[2], "a", 1)
  call("HSET", KEYS[2], "b", 2)
end
for n, data in ipairs(ARGV) do

  call("LPUSH", KEYS[3], data)
end
return job
`)
	if runs != 1 || !strings.Contains(output, "ours.lua:2: 6 lines equal") || !strings.Contains(output, "theirs.lua:4") {
		t.Errorf("%d runs:\n%s", runs, output)
	}
}

func TestFewerEqualLinesAreNotReported(t *testing.T) {
	runs, output := compareTexts(t, `
local id = rcall("INCR", KEYS[1])
if id > 5 then
  rcall("HSET", KEYS[2], "a", 1)
  rcall("HSET", KEYS[2], "c", 3)
end
for i, job in ipairs(ARGV) do
  rcall("LPUSH", KEYS[3], job)
end
`)
	if runs != 0 {
		t.Errorf("%d runs:\n%s", runs, output)
	}
}

func TestADirectoryWithoutLuaIsAnError(t *testing.T) {
	if _, err := compare(&bytes.Buffer{}, t.TempDir(), t.TempDir(), 5); err == nil {
		t.Error("no error")
	}
}
