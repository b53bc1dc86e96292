#!/bin/sh
# The golden frames, made again by node-mavlink, must be the ones in the tree. The package is looked for in NODE_PATH, then
# in FOLDER, into which npm installs it once.
#
# usage: check.sh FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 version=2.3.0
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "SKIPPED: node and npm are not installed: frames are compared with golden.txt alone" >&2
    exit 77
fi
has() { NODE_PATH=$1 node -e "require('node-mavlink')" 2>/dev/null; }
found=${NODE_PATH:-$folder/node_modules}
if ! has "$found"; then
    mkdir -p "$folder"
    timeout 120 npm install --silent --no-audit --no-fund --prefix "$folder" "node-mavlink@$version" >"$folder/npm.log" 2>&1 || {
        echo "SKIPPED: npm cannot install node-mavlink: frames are compared with golden.txt alone" >&2
        cat "$folder/npm.log" >&2
        exit 77
    }
    found=$folder/node_modules
fi
NODE_PATH=$found node "$here/golden.js" | cmp - "$here/golden.txt"
