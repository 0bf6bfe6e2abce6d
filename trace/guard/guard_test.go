package guard_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/trace/guard"
)

func broken(list []int, i int) error {
	list[i]++
	return nil
}

func TestCall(t *testing.T) {
	var group errgroup.Group
	group.Go(guard.Func(func() error { return broken(nil, 3) }))
	err := group.Wait()
	want := regexp.MustCompile(`^runtime error: index out of range \[3\] with length 0 at trace/guard_test/guard_test.go:\d+ from `)
	if err == nil || !want.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
	again := guard.Call(func() error { panic(fmt.Errorf("beside: %w", err)) })
	if !errors.Is(again, err) {
		t.Errorf("a panic with the error of another goroutine gave %v", again)
	}
	plain := errors.New("no panic")
	if got := guard.Call(func() error { return plain }); !errors.Is(got, plain) {
		t.Errorf("got %v", got)
	}
}

// The first error ends the calls.
func TestAtMostEnds(t *testing.T) {
	calls, want := 0, errors.New("the third")
	err := guard.AtMost(1, 10, func(i int) error {
		if calls++; i == 2 {
			return want
		}
		return nil
	})
	if !errors.Is(err, want) || calls != 3 {
		t.Errorf("%v after %d calls, want %v after 3", err, calls, want)
	}
}
