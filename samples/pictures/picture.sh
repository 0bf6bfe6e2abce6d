#!/usr/bin/env bash
# Draws a page of overlapse with a headless Chromium, as pixels (PNG) or as lines and text (PDF; pdftocairo -svg makes SVG of it).
#   picture.sh PAGE.html[#ADDRESS] FILE.png|FILE.pdf WIDTH HEIGHT [PART]
# WIDTH and HEIGHT are px. ADDRESS is what stands behind # in the page's address: strategies, ranks, a range of time. PART is
# strategies, timeline, workgroups, use or numbers, drawn without its heading and controls; without a PART the page is as it opens.
#   overlapse report samples/moe-ep4 -o moe.html && samples/pictures/picture.sh 'moe.html#strategy=bulk,fused&rank=0&t=1ms-3ms' pair.pdf 1000 300 timeline
set -euo pipefail
(($# == 4 || $# == 5)) || { sed -n '2,6s/^# \?//p' "$0"; exit 2; }
page=${1%%#*} address=${1#"$page"} file=$2 width=$3 height=$4 part=${5:-}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

style="@page { size: ${width}px ${height}px; margin: 0 }"
if [[ $part ]]; then
	style+=" html { height: ${height}px; overflow: hidden } :root { --tallest: $((height - 40)) } body { width: auto !important; padding: 4px 8px !important }"
	style+=" body > :not(#$part):not(:has(#$part)), .answer > :not(#$part), h2, summary, .about, .controls, .picked { display: none !important } #$part { border: 0; margin: 0; padding: 0 }"
fi
sed "s|</style>|$style&|; s|id=\"$part\"|& open|" "$page" >"$scratch/page.html"
case $file in
*.png) output=(--hide-scrollbars --force-device-scale-factor=1 --screenshot="$scratch/picture.${file##*.}") ;;
*.pdf) output=(--no-pdf-header-footer --print-to-pdf="$scratch/picture.${file##*.}") ;;
*) echo "$file: neither .png nor .pdf" >&2 && exit 2 ;;
esac
draw() {
	"$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=8000 --window-size="$width,$height" "${output[@]}" \
		"file://$scratch/page.html$address" >"$scratch/log" 2>&1
}
draw || draw || { cat "$scratch/log" >&2; exit 1; } # a browser that crashed is started once more
mv "$scratch/picture.${file##*.}" "$file"
