package input

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// temporaryName is the name of a temporary file or folder: of which host and process.
var temporaryName = regexp.MustCompile(`^\.overlapse-(.+)-(\d+)-[0-9a-f]{8}\.tmp$`)

// keptFolder is the folder in a temporary one that holds what is about to be replaced.
const keptFolder = "kept"

// create makes a file or folder with a temporary name, and removes what processes that are gone
// left in the same folder.
func (f *Set) create(dir string, add func(name string) error) (name string, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	removeLeft(dir, host)
	for {
		name = filepath.Join(dir, fmt.Sprintf(".overlapse-%s-%d-%08x.tmp", host, os.Getpid(), rand.Uint32()))
		if err = add(name); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil {
		if err = f.temporary(name); err != nil {
			_ = os.RemoveAll(name)
		}
	}
	return name, err
}

// removeLeft removes the temporary files and folders of processes of this host that are gone.
// A folder that one of them was about to replace gets its name again if nothing has it.
func removeLeft(dir, host string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		of := temporaryName.FindStringSubmatch(e.Name())
		if of == nil || of[1] != host {
			continue
		}
		pid, _ := strconv.Atoi(of[2])
		p, err := os.FindProcess(pid)
		if err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			left := filepath.Join(dir, e.Name())
			kept, _ := os.ReadDir(filepath.Join(left, keptFolder))
			for _, k := range kept {
				name := filepath.Join(dir, k.Name())
				if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if os.Rename(filepath.Join(left, keptFolder, k.Name()), name) != nil {
					return
				}
			}
			_ = os.RemoveAll(left)
		}
	}
}
