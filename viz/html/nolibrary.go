//go:build noecharts

package html

var library []byte // none
