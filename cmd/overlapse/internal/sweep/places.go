package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/files"
)

// Open opens a folder or s3://BUCKET/PREFIX.
func Open(set *files.Set, name string) (Store, error) {
	if rest, ok := strings.CutPrefix(name, "s3://"); ok {
		return openBucket(rest, os.Getenv)
	}
	return folderStore{set, name}, nil
}

// A folderStore is a folder, which the first write makes.
type folderStore struct {
	files *files.Set
	path  string
}

func (s folderStore) String() string { return s.path }

func (s folderStore) Names(context.Context) ([]string, error) {
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

func (s folderStore) Read(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.path, name))
}

func (s folderStore) Write(_ context.Context, name string, data []byte) error {
	if err := os.MkdirAll(s.path, 0o777); err != nil {
		return err
	}
	return s.files.WriteBytes(filepath.Join(s.path, name), data)
}

// A bucketStore is the objects of an S3 bucket below a prefix.
type bucketStore struct {
	client         *minio.Client
	bucket, prefix string
}

// openBucket opens BUCKET/PREFIX with the variables and files of credentials that S3 clients
// use.
func openBucket(name string, env func(string) string) (Store, error) {
	bucket, prefix, _ := strings.Cut(name, "/")
	if bucket == "" {
		return nil, cli.Errorf("s3://%s: give s3://BUCKET/PREFIX", name)
	}
	endpoint, secure := "s3.amazonaws.com", true
	if u := env("AWS_ENDPOINT_URL"); u != "" {
		at, err := url.Parse(u)
		if err != nil || at.Host == "" {
			return nil, cli.Errorf("AWS_ENDPOINT_URL: %q is no address (as https://HOST:PORT)", u)
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
	return bucketStore{client, bucket, prefix}, nil
}

func (s bucketStore) String() string { return "s3://" + path.Join(s.bucket, s.prefix) }

func (s bucketStore) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v: %w", s, err)
}

func (s bucketStore) Names(ctx context.Context) ([]string, error) {
	var names []string
	for o := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix}) {
		if o.Err != nil {
			return nil, s.fail(o.Err)
		}
		names = append(names, strings.TrimPrefix(o.Key, s.prefix))
	}
	return names, nil
}

func (s bucketStore) Read(ctx context.Context, name string) ([]byte, error) {
	o, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.fail(err)
	}
	defer func() { _ = o.Close() }() // it was only read
	data, err := io.ReadAll(o)
	return data, s.fail(err)
}

func (s bucketStore) Write(ctx context.Context, name string, data []byte) error {
	_, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
	return s.fail(err)
}
