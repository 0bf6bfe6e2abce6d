package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/overlapse/overlapse/cmd/overlapse/files"
	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
	"github.com/overlapse/overlapse/engines/sweep"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/operator"
)

// sweepStore opens a folder or s3://BUCKET/PREFIX.
func (a *app) sweepStore(ctx context.Context, name string) (sweep.Store, error) {
	if rest, ok := strings.CutPrefix(name, "s3://"); ok {
		return openBucket(ctx, rest, os.Getenv)
	}
	return folderStore{&a.files, name}, nil
}

// A folderStore is a folder, which the first write makes.
type folderStore struct {
	files *files.Set
	path  string
}

func (s folderStore) String() string { return s.path }

func (s folderStore) Names() ([]string, error) {
	entries, err := os.ReadDir(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (s folderStore) Read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.path, name))
}

func (s folderStore) Write(name string, data []byte) error {
	if err := os.MkdirAll(s.path, 0o777); err != nil {
		return err
	}
	return s.files.Write(filepath.Join(s.path, name), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// A bucketStore is the objects of an S3 bucket below a prefix.
type bucketStore struct {
	ctx            context.Context
	client         *minio.Client
	bucket, prefix string
}

// openBucket opens BUCKET/PREFIX with the variables and files of credentials that S3 clients
// use.
func openBucket(ctx context.Context, name string, env func(string) string) (sweep.Store, error) {
	bucket, prefix, _ := strings.Cut(name, "/")
	if bucket == "" {
		return nil, usage.Errorf("s3://%s: give s3://BUCKET/PREFIX", name)
	}
	endpoint, secure := "s3.amazonaws.com", true
	if u := env("AWS_ENDPOINT_URL"); u != "" {
		at, err := url.Parse(u)
		if err != nil || at.Host == "" {
			return nil, usage.Errorf("AWS_ENDPOINT_URL: %q is no address (as https://HOST:PORT)", u)
		}
		endpoint, secure = at.Host, at.Scheme != "http"
	}
	client, err := minio.New(endpoint, &minio.Options{
		Creds:  credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}}),
		Secure: secure, Region: env("AWS_REGION"),
	})
	if err != nil {
		return nil, fmt.Errorf("s3://%s: %w", name, err)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return bucketStore{ctx, client, bucket, prefix}, nil
}

func (s bucketStore) String() string { return "s3://" + path.Join(s.bucket, s.prefix) }

func (s bucketStore) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v: %w", s, err)
}

func (s bucketStore) Names() ([]string, error) {
	var names []string
	for o := range s.client.ListObjects(s.ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix}) {
		if o.Err != nil {
			return nil, s.fail(o.Err)
		}
		names = append(names, strings.TrimPrefix(o.Key, s.prefix))
	}
	return names, nil
}

func (s bucketStore) Read(name string) ([]byte, error) {
	o, err := s.client.GetObject(s.ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.fail(err)
	}
	defer func() { _ = o.Close() }() // it was only read
	data, err := io.ReadAll(o)
	return data, s.fail(err)
}

func (s bucketStore) Write(name string, data []byte) error {
	_, err := s.client.PutObject(s.ctx, s.bucket, s.prefix+name, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
	return s.fail(err)
}

// programVersion is what results depend on besides their input: the version of a release or a
// clean commit, else the content of the program.
var programVersion = sync.OnceValue(func() string {
	v := version()
	if strings.Contains(v, "commit ") && !strings.Contains(v, "with local changes") {
		return v
	}
	if path, err := os.Executable(); err == nil {
		if sum, err := fileDigest(path); err == nil {
			return v + " " + sum
		}
	}
	return v
})

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, files.WithoutPath(err))
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, files.WithoutPath(err))
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// inputDigest is the hash of a trace, a file, a folder or a glob of ranks, or of a workload
// file with the machine that it names.
func (a *app) inputDigest(name string) (string, error) {
	paths := []string{name}
	if _, err := os.Stat(name); err != nil {
		if paths, err = filepath.Glob(name); err != nil || len(paths) == 0 {
			return "", fmt.Errorf("%s: no such file or folder (inputs of a plan are relative to the plan)", name)
		}
	}
	h := sha256.New()
	for _, p := range paths {
		err := filepath.WalkDir(p, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			sum, err := fileDigest(file)
			rel, _ := filepath.Rel(p, file)
			fmt.Fprintf(h, "%q %s\n", filepath.ToSlash(rel), sum)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if inputs.IsYAML(name) {
		in, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer in.Close()
		f, err := operator.Parse(in, name)
		if err != nil {
			return "", err
		}
		if inputs.IsPath(f.Machine) {
			sum, err := a.machineDigest(besidesMachine(name, f.Machine))
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// machineDigest is the hash of a machine with all its values, and of its number of GPUs, if
// the name has one.
func (a *app) machineDigest(name string) (string, error) {
	m, sized, err := a.ReadMachine(name)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, sized)
	if err := profile.WriteYAML(m, h); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
