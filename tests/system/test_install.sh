#!/bin/sh
# What `meson install` puts under a prefix is complete and works there: programs, models, manual pages, the C library by
# way of pkg-config, and the Python package.
#
# usage: test_install.sh BUILD SOURCE
set -eu
build=$1 source=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
bad=0
fail() {
    echo "FAILED: $*"
    bad=1
}

option() {
    meson introspect "$build" --buildoptions | python3 -c \
        'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"
}
prefix=$(option prefix) etc=$(option sysconfdir) lib=$(option libdir)
case $etc in /*) ;; *) etc=$prefix/$etc ;; esac

DESTDIR=$root meson install -C "$build" --no-rebuild --quiet

# everything that is promised
while read -r file; do
    [ -e "$root$prefix/$file" ] || fail "not installed: $prefix/$file"
done <<END
bin/hilbertctl
sbin/hilbertd
include/hilbert_client.h
$lib/libhilbert-client.a
$lib/libhilbert-client.so
$lib/pkgconfig/hilbert-client.pc
lib/systemd/system/hilbertd.service
lib/systemd/system/hilbertd@.service
lib/systemd/system/hilbertd.timer
lib/systemd/system/hilbertd@.timer
lib/sysusers.d/hilbertd.conf
lib/tmpfiles.d/hilbertd.conf
share/bash-completion/completions/hilbertctl
share/man/man1/hilbertctl.1
share/man/man5/hilbertd.yaml.5
share/man/man8/hilbertd.8
END
for program in "$root$prefix"/bin/hilbert-*; do
    name=${program##*/}
    [ -e "$root$prefix/share/man/man1/$name.1" ] || fail "$name has no manual page"
done
for program in "$root$prefix"/bin/* "$root$prefix"/sbin/*; do
    LD_LIBRARY_PATH=$root$prefix/$lib "$program" --version >/dev/null || fail "${program##*/} --version: status $?"
done

# every configuration is good, with the models as they are installed
for config in "$source"/config/*.yaml; do
    file=$root$etc/hilbertd/${config##*/}
    cmp -s "$config" "$file" || fail "$config is not installed"
    model=$(sed -n 's/^model: *"\{0,1\}\([^" ]*\).*/\1/p' "$config")
    cp "$root$prefix/share/hilbertd/models/$model" "${file%/*}/" || fail "$config: model $model is not installed"
    "$root$prefix/sbin/hilbertd" --check "$file" || fail "$config: status $?"
done

# a program against the library as installed, shared and static
PKG_CONFIG_LIBDIR=$root$prefix/$lib/pkgconfig:$(pkg-config --variable pc_path pkg-config)
export PKG_CONFIG_LIBDIR
flags() {
    pkg-config --define-variable=prefix="$root$prefix" "$@" hilbert-client
}
# shellcheck disable=SC2046 # one word a flag
cc -o "$root/shared" "$source/clients/c/example.c" $(flags --cflags --libs) -lm || fail "no program with the shared library"
LD_LIBRARY_PATH=$root$prefix/$lib ldd "$root/shared" | grep -q "$root.*libhilbert-client" || fail "not linked to the library as installed"
# shellcheck disable=SC2046
cc -o "$root/static" "$source/clients/c/example.c" $(flags --cflags) "$root$prefix/$lib/libhilbert-client.a" \
    $(flags --static --libs-only-l | sed 's/-lhilbert-client//') -lm || fail "no program with the static library"

packages=$(dirname "$(find "$root$prefix" -path '*/hilbert/client.py')")
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${packages%/*} /usr/bin/python3 -c 'import hilbert; hilbert.Client().close()' || fail "no Python package"
exit $bad
