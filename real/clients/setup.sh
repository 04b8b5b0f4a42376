#!/usr/bin/env bash
# The pinned clients, from the package registries; safe to run again. Usage: setup.sh [--node]
#
# Makes in $EVENKEEL_REAL_DIR (default ~/.cache/evenkeel-real)
#   clients/   Python with the SDKs and frameworks of requirements.txt
#   node/      with --node: the SDKs of package-lock.json
# and prints the path of that Python.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${EVENKEEL_REAL_DIR:-$HOME/.cache/evenkeel-real}
mkdir -p "$dir"
exec 9>"$dir/.clients-lock"
flock 9
py=$dir/clients/bin/python
stamp=$dir/.clients-python-$(cksum < "$here/requirements.txt" | cut -d' ' -f1)
if [ ! -e "$stamp" ]; then
  [ -x "$py" ] || python3 -m venv "$dir/clients"
  # every version is pinned, so --no-deps: pip 23's resolver does not finish on this set
  "$py" -m pip install -q --no-deps -r "$here/requirements.txt"
  touch "$stamp"
fi
echo "$py"
[ "${1:-}" = --node ] || exit 0
stamp=$dir/.clients-node-$(cat "$here/package.json" "$here/package-lock.json" | cksum | cut -d' ' -f1)
if [ ! -e "$stamp" ]; then
  mkdir -p "$dir/node"
  cp "$here/package.json" "$here/package-lock.json" "$dir/node/"
  (cd "$dir/node" && npm ci --silent --no-fund --no-audit)
  touch "$stamp"
fi
