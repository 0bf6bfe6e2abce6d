#!/usr/bin/env bash
# Regenerates the pictures of README.md: the report in a headless browser, the terminal view in tmux.
# Needs go, chromium, tmux and aha (converts terminal colours to HTML). Runs from any folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$here/../..
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"; tmux -L overlapse-pictures kill-server 2>/dev/null || true' EXIT

cd "$repository"
go build -o "$scratch/overlapse" ./cmd/overlapse
"$scratch/overlapse" -q report samples/moe-ep4 --strategy captured,bulk,decompose,fused,onesided -o "$scratch/report.html"
"$here/picture.sh" "$scratch/report.html" "$here/report.png" 1500 960

tmux -L overlapse-pictures new-session -d -x 130 -y 40 "TERM=tmux-256color COLORTERM=truecolor '$scratch/overlapse' view samples/moe-down-fused-wg"
sleep 5
tmux -L overlapse-pictures send-keys Down Down Space # the workgroups of rank 0
sleep 1
tmux -L overlapse-pictures capture-pane -e -N -p >"$scratch/screen.txt"
aha --black --title terminal -f "$scratch/screen.txt" |
	sed 's|<pre>|<pre style="font: 14px/1.15 DejaVu Sans Mono, monospace; margin: 8px">|' >"$scratch/screen.html"
"$here/picture.sh" "$scratch/screen.html" "$here/terminal.png" 1120 670
