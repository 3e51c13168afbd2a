// Command runc stands before the real runc on a machine that withholds CAP_SYS_RESOURCE: there every privileged
// container fails, since a capability can only be given by who has it. It takes that one out of what is asked for, with
// the OOM score that only it may lower, and hands over. With the capability in its hands it changes nothing.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	withheld           = "CAP_SYS_RESOURCE"
	withheldBit uint64 = 1 << 24 // capability.h
	realRunc           = "/usr/sbin/runc"
)

func main() {
	if !isHeld() {
		if path := specPath(os.Args[1:]); path != "" {
			if err := rewrite(path); err != nil {
				fmt.Fprintln(os.Stderr, "runc:", err)
				os.Exit(1)
			}
		}
	}
	err := syscall.Exec(realRunc, append([]string{"runc"}, os.Args[1:]...), os.Environ())
	fmt.Fprintln(os.Stderr, "runc:", realRunc, err)
	os.Exit(1)
}

func isHeld() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "CapEff:"); found {
			effective, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && effective&withheldBit != 0
		}
	}
	return false
}

// specPath is the file that says what process to start: the bundle's, or that of an exec.
func specPath(args []string) string {
	value := func(names ...string) string {
		for i, arg := range args {
			if slices.Contains(names, arg) && i+1 < len(args) {
				return args[i+1]
			}
		}
		return ""
	}
	switch {
	case slices.Contains(args, "create"), slices.Contains(args, "run"):
		return filepath.Join(value("--bundle", "-b"), "config.json")
	case slices.Contains(args, "exec"):
		return value("--process", "-p")
	}
	return ""
}

func rewrite(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	process, isBundle := spec["process"].(map[string]any)
	if !isBundle {
		process = spec
	}
	delete(process, "oomScoreAdj")
	capabilities, _ := process["capabilities"].(map[string]any)
	for set, names := range capabilities {
		list, _ := names.([]any)
		capabilities[set] = slices.DeleteFunc(list, func(name any) bool { return name == withheld })
	}
	changed, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	return os.WriteFile(path, changed, 0o600)
}
