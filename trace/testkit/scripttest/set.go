package scripttest

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// SetField sets a field that a path like Fabric.Pair.Value names. Text is a number, the name of a constant, "true", "false" or a
// string, in which "␣" stands for a space; of a field of a struct with a field Value, that.
func SetField(of any, path, text string) error {
	text = strings.ReplaceAll(text, "␣", " ")
	v := reflect.ValueOf(of).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Slice {
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= v.Len() {
				return fmt.Errorf("%s: no element %s of %d", path, name, v.Len())
			}
			v = v.Index(i)
			continue
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v = v.FieldByName(name); !v.IsValid() {
			return fmt.Errorf("%s: no field %s", path, name)
		}
	}
	if v.Kind() == reflect.Struct && v.FieldByName("Value").IsValid() {
		v = v.FieldByName("Value")
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		v.SetBool(b)
		return err
	}
	if n, ok := constant(v, text); ok {
		text = strconv.Itoa(n)
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case v.CanInt():
		v.SetInt(int64(f))
	case v.CanUint():
		v.SetUint(uint64(f))
	case v.CanFloat():
		v.SetFloat(f)
	default:
		return fmt.Errorf("%s: a %s is not set by text", path, v.Kind())
	}
	return nil
}

// constant is the value of v's type whose String is text.
func constant(v reflect.Value, text string) (n int, ok bool) {
	if _, ok := v.Interface().(fmt.Stringer); !ok || !v.CanInt() && !v.CanUint() {
		return 0, false
	}
	for n := range 64 {
		x := reflect.New(v.Type()).Elem()
		if x.CanInt() {
			x.SetInt(int64(n))
		} else {
			x.SetUint(uint64(n))
		}
		if x.Interface().(fmt.Stringer).String() == text {
			return n, true
		}
	}
	return 0, false
}
