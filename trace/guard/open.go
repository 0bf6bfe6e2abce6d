package guard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os" // opening what the user names is what this package is for
)

// Open opens a file for reading: a regular one, since a pipe would block, and a device may not end. Where the path
// is no regular file, a *fs.PathError says what it is.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if what := kind(info.Mode()); what != "" {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New(what + ", not a file: give a file, or - to read standard input")}
	}
	return os.Open(path)
}

// ReadFile is os.ReadFile with the rule of Open.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Digest is the SHA-256 of a file, in hexadecimal.
func Digest(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// kind is what a file is that is not regular; else "".
func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a folder"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case !m.IsRegular():
		return "a special file"
	}
	return ""
}
