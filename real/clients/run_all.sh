#!/usr/bin/env bash
# All client smoke tests against one target. Usage: run_all.sh [BASE [MODEL [extra flags]]]
# BASE ends in /v1. Starts faults.py in front of the target on FAULT_PORT (18090) and ends it.
# Installs into $EVENKEEL_REAL_DIR (default ~/.cache/evenkeel-real) on first use (setup.sh).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
base=${1:-http://127.0.0.1:18080/v1}; model=${2:-smollm2-135m}; shift $(( $# > 2 ? 2 : $# ))
dir=${EVENKEEL_REAL_DIR:-$HOME/.cache/evenkeel-real}; port=${FAULT_PORT:-18090}
py=$dir/clients/bin/python
bash "$here/setup.sh" --node >/dev/null || { echo "install failed"; exit 2; }
cp "$here/smoke_node.mjs" "$dir/node/"
python3 "$here/faults.py" --port "$port" --upstream "${base%/v1}" >/dev/null & fp=$!
trap 'kill $fp 2>/dev/null' EXIT
sleep 1
rc=0 p=0 f=0 s=0
run() {
  echo "== $1"; local out; out=$("${@:2}" 2>/dev/null); local r=$?
  echo "$out"; [ $r = 0 ] || rc=1
  local l; l=$(tail -1 <<<"$out")
  if [[ $l =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
    p=$((p + BASH_REMATCH[1])); f=$((f + BASH_REMATCH[2])); s=$((s + ${BASH_REMATCH[4]:-0}))
  else f=$((f + 1)); rc=1; fi
}
k=(--base "$base" --model "$model")
run openai "$py" "$here/smoke_openai.py" "${k[@]}" --faults "http://127.0.0.1:$port" "$@"
run anthropic "$py" "$here/smoke_anthropic.py" "${k[@]}" --faults "http://127.0.0.1:$port" "$@"
run frameworks "$py" "$here/smoke_frameworks.py" "${k[@]}" "$@"
run node node "$dir/node/smoke_node.mjs" "${k[@]}" --faults "http://127.0.0.1:$port"
run stream_ends "$py" "$here/stream_ends.py"
echo "$p passed, $f failed, $s skipped"
exit $rc
