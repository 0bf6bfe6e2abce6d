//go:build !noecharts

package html

import _ "embed"

// library is ECharts, compressed. A build with the tag noecharts has none: its reports show
// the strategies as a table, without bars.
//
//go:embed assets/echarts.min.js.gz
var library []byte
