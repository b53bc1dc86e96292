#!/bin/sh
# The golden frames, made again by node-mavlink as it is today, must be the ones in the tree. Packages are looked for in
# NODE_PATH, else here: npm install --prefix tests/data/mavlink node-mavlink
here=$(dirname "$0")
export NODE_PATH="${NODE_PATH:-$here/node_modules}"
if ! command -v node >/dev/null; then
    echo "SKIPPED: node is not installed: frames are compared with golden.txt alone" >&2
    exit 77
fi
if ! node -e "require('node-mavlink')" 2>/dev/null; then
    echo "SKIPPED: no node-mavlink in $NODE_PATH (npm install --prefix $here node-mavlink)" >&2
    exit 77
fi
node "$here/golden.js" | cmp - "$here/golden.txt"
