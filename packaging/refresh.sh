#!/bin/sh
# Writes the files that follow from the tables of keys: config/hilbertd.yaml, clients/mavlink/mavlink.yaml and the keys of hilbertd.yaml(5).
# usage: refresh.sh BUILD_FOLDER
set -eu
[ $# = 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
hilbertd=$(cd "$1" && pwd)/daemon/hilbertd mavlink=$(cd "$1" && pwd)/clients/mavlink/hilbert-mavlink
cd "$(dirname "$0")/.."
unset RUNTIME_DIRECTORY LOGS_DIRECTORY # defaults follow them

"$hilbertd" --print-config >config/hilbertd.yaml.new
mv config/hilbertd.yaml.new config/hilbertd.yaml
"$mavlink" --print-config >clients/mavlink/mavlink.yaml.new
mv clients/mavlink/mavlink.yaml.new clients/mavlink/mavlink.yaml
page=packaging/man/hilbertd.yaml.5.scd
{
    sed '/^# KEYS$/q' $page
    echo
    "$hilbertd" --print-keys
    sed -n '/^# SEE ALSO$/,$p' $page
} >$page.new
mv $page.new $page
