#!/usr/bin/env bash
# Compares BASE with NEW, posts the comparison as the job's summary, and exits as overlapse diff does: 3 if something
# grew by more than FAIL_ABOVE. JUNIT: a file for a report; none if empty.
set -euo pipefail
markdown=$RUNNER_TEMP/overlapse.md
echo "markdown=$markdown" >>"$GITHUB_OUTPUT"
status=0
overlapse -q diff "$BASE" "$NEW" --fail-above "$FAIL_ABOVE" --format markdown >"$markdown" || status=$?
cat "$markdown" >>"$GITHUB_STEP_SUMMARY"
if [[ -n $JUNIT && ($status == 0 || $status == 3) ]]; then
	overlapse -q diff "$BASE" "$NEW" --fail-above "$FAIL_ABOVE" --format junit >"$JUNIT" 2>/dev/null || (($? == 3))
fi
exit "$status"
