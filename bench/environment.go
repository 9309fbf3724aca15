package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// environment describes the machine and the versions of the measurement.
func (h *harness) environment() (string, error) {
	server, err := h.redis.info("server")
	if err != nil {
		return "", err
	}
	var asynq, rueidis string
	if info, err := buildinfo.ReadFile(h.asynq); err == nil {
		asynq = version(info, "github.com/hibiken/asynq")
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		rueidis = version(info, "github.com/redis/rueidis")
	}
	var bullmq struct{ Version string }
	if text, err := os.ReadFile(filepath.Join(h.nodeDirectory, "node_modules", "bullmq", "package.json")); err == nil {
		_ = json.Unmarshal(text, &bullmq)
	}
	node, _ := exec.Command("node", "--version").Output()
	return fmt.Sprintf("%s on %s, %d cores, %s/%s. Redis %s; Node.js %s with bullmq %s; %s with rueidis %s; asynq %s. Rounds: %d; figures are medians.",
		time.Now().Format("2006-01-02"), processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
		server["redis_version"], strings.TrimSpace(string(node)), bullmq.Version,
		runtime.Version(), rueidis, asynq, h.rounds), nil
}

func version(info *debug.BuildInfo, module string) string {
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "?"
}

// processor returns the model of the CPU if the system reports it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown CPU"
}
