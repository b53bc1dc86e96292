#!/bin/sh
# Files of ours are read by an independent implementation of MCAP (npm @mcap/core), and its files by us.
# Packages are looked for in NODE_PATH, else installed into a temporary folder.
#
# usage: test_mcap.sh MCAP_TOOL PEER.js
set -eu
tool=$1
peer=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "SKIPPED: node and npm are not installed: nobody else has read our recordings" >&2
    exit 77
fi
cp "$peer" "$folder/peer.js"
if ! (cd "$folder" && node -e "require('@mcap/core'); require('@foxglove/wasm-zstd')") 2>/dev/null; then
    (cd "$folder" && npm install --silent --no-audit --no-fund @mcap/core @foxglove/wasm-zstd >npm.log 2>&1) || {
        echo "SKIPPED: @mcap/core cannot be installed: nobody else has read our recordings" >&2
        cat "$folder/npm.log" >&2
        exit 77
    }
fi

"$tool" write "$folder/ours.mcap"
"$tool" read "$folder/ours.mcap" >"$folder/expected"
[ "$(wc -l <"$folder/expected")" = 501 ] || { echo "expected 501 lines of our own"; exit 1; }
node "$folder/peer.js" read "$folder/ours.mcap" | cmp - "$folder/expected"
for how in plain zstd; do
    node "$folder/peer.js" write $how "$folder/theirs.mcap"
    "$tool" read "$folder/theirs.mcap" | cmp - "$folder/expected"
done
node "$folder/peer.js" write unchunked "$folder/theirs.mcap"
"$tool" read "$folder/theirs.mcap" | cmp - "$folder/expected"
echo "500 messages each way, with and without compression and chunks"
