//go:build unix

package viewcache

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file into memory. What is written to that memory does not reach the file.
func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
}

// dropPages gives the memory of a part of a mapped file back; it is read again when needed.
func dropPages(part []byte) {
	_ = unix.Madvise(part, unix.MADV_DONTNEED) // without it the process is larger
}
