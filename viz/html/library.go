//go:build !noecharts

package html

import _ "embed"

// library is ECharts, compressed. A build with the tag noecharts has none: its reports show
// charts and timelines as SVG, without zoom and search.
//
//go:embed assets/echarts.min.js.gz
var library []byte
