package sweep

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/files"
)

// bucket is an S3 service of one bucket: objects by key.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case name != "cells" || !strings.Contains(r.Header.Get("Authorization"), "Credential=me/"):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>`)
	case r.Method == http.MethodPut:
		b.objects[key] = payload(r)
		w.Header().Set("ETag", `"x"`)
	case r.Method == http.MethodGet && key == "":
		type object struct {
			Key  string
			Size int
		}
		var list struct {
			XMLName  xml.Name `xml:"ListBucketResult"`
			Contents []object
		}
		for k, v := range b.objects {
			if strings.HasPrefix(k, r.URL.Query().Get("prefix")) {
				list.Contents = append(list.Contents, object{k, len(v)})
			}
		}
		_ = xml.NewEncoder(w).Encode(list)
	default:
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
		_, _ = w.Write(b.objects[key])
	}
}

// payload is the body of a request without the signatures of its chunks.
func payload(r *http.Request) []byte {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		data, _ := io.ReadAll(r.Body)
		return data
	}
	var data []byte
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		var n int
		if _, bad := fmt.Sscanf(line, "%x;", &n); bad != nil || err != nil || n == 0 {
			return data
		}
		chunk := make([]byte, n+2) // with its line end
		_, _ = io.ReadFull(in, chunk)
		data = append(data, chunk[:n]...)
	}
}

// A sweep into a bucket leaves the same files as one into a folder.
func TestSweepBucket(t *testing.T) {
	b := &bucket{objects: map[string][]byte{}}
	server := httptest.NewServer(b)
	defer server.Close()
	env := map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1"}
	t.Setenv("AWS_ACCESS_KEY_ID", "me")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s, err := openBucket("cells/some/prefix/", func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	records := []Record{{ID: "one", Time: 5}, {ID: "two", Why: "no pair"}}
	if err := SaveBatch(context.Background(), s, records); err != nil {
		t.Fatal(err)
	}
	finished := map[string]Record{}
	if err := Finished(context.Background(), s, finished); err != nil || len(finished) != 2 || finished["two"] != records[1] {
		t.Fatalf("%v, %v", finished, err)
	}
	folder := folderStore{&files.Set{}, t.TempDir()}
	if err := SaveBatch(context.Background(), folder, records); err != nil {
		t.Fatal(err)
	}
	here, err1 := folder.Names(t.Context())
	there, err2 := s.Names(t.Context())
	if err := errors.Join(err1, err2); err != nil || !slices.Equal(here, there) || s.String() != "s3://cells/some/prefix" {
		t.Errorf("%v and %v in %v, %v", here, there, s, err)
	}

	other, err := openBucket("others/x", func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Names(t.Context()); err == nil || err.Error() != "s3://others/x: Access Denied." {
		t.Errorf("got %v", err)
	}
	if _, err := openBucket("cells", func(string) string { return "nonsense" }); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("got %v", err)
	}
}
