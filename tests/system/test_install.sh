#!/bin/sh
# What `meson install` leaves on a machine is complete and works: programs, models, manual pages, the C library by way of
# pkg-config, the Python package, user and folder of the daemon. Nothing is set in the environment to help it.
# The files are looked at in a staging folder; then the same is installed for good, in a mount namespace in which
# /usr/local is empty, and /etc and /run are scratch.
#
# usage: test_install.sh BUILD SOURCE
set -eu
build=$1 source=$2
bad=0
fail() {
    echo "FAILED: $*"
    bad=1
}

# ---- inside the namespace ----

installed_for_good() {
    mount -t tmpfs tmpfs /usr/local
    mkdir /usr/local/scratch
    mkdir /usr/local/scratch/upper /usr/local/scratch/work
    mount -t overlay overlay -o lowerdir=/etc,upperdir=/usr/local/scratch/upper,workdir=/usr/local/scratch/work /etc
    mount -t tmpfs tmpfs /run
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    cd /
    unset DESTDIR PYTHONPATH LD_LIBRARY_PATH PKG_CONFIG_PATH PKG_CONFIG_LIBDIR HILBERT_MODELS
    sed -i '/^hilbertd:/d' /etc/passwd /etc/group

    # with a terminal, for what it says to people
    script -qec "meson install -C '$build' --no-rebuild" /run/said >/dev/null </dev/null || fail "meson install: status $?"
    grep -A9 '^hilbertd is installed' /run/said || fail "meson install does not say what to do next"
    for program in /usr/local/bin/* /usr/local/sbin/*; do
        name=${program##*/}
        [ "$(command -v "$name")" = "$program" ] || fail "$name is not found"
        "$name" --version >/dev/null || fail "$name --version: status $?"
    done

    # user and folder
    getent passwd hilbertd >/dev/null || fail "no user hilbertd"
    [ "$(stat -c '%U %a' /run/hilbertd)" = "hilbertd 755" ] || fail "/run/hilbertd: $(stat -c '%U %a' /run/hilbertd)"

    # every configuration is good, as it is installed
    for config in "$source"/config/*.yaml; do
        hilbertd --check "$etc/hilbertd/${config##*/}" || fail "$config: status $?"
    done

    # a program with the shared library, found by pkg-config, the linker and the loader by themselves
    # shellcheck disable=SC2046 # one word per flag
    cc -o /run/shared "$source/clients/c/example.c" $(pkg-config --cflags --libs hilbert-client) -lm ||
        fail "no program with the shared library"
    ldd /run/shared | grep -q '/usr/local/.*libhilbert-client' || fail "the loader does not find the library"
    # and with the static one
    # shellcheck disable=SC2046
    cc -o /run/static "$source/clients/c/example.c" $(pkg-config --cflags hilbert-client) \
        "$(pkg-config --variable=libdir hilbert-client)/libhilbert-client.a" \
        $(pkg-config --static --libs-only-l hilbert-client | sed 's/-lhilbert-client//') -lm || fail "no program with the static library"
    ldd /run/static | grep -q 'libhilbert-client' && fail "the static program needs the shared library"

    # the Python package, and the contract for other languages
    /usr/bin/python3 -c 'import hilbert; hilbert.Client().close(); assert hilbert.__file__.startswith("/usr/local/")' ||
        fail "no Python package"
    protoc --proto_path=/usr/local/share/hilbertd --python_out=/run hilbert.proto || fail "no hilbert.proto"

    # the next step: the daemon as its own user, asked by hilbertctl and Python without options
    config=$etc/hilbertd/hilbertd.yaml
    setpriv --reuid=hilbertd --regid=hilbertd --init-groups hilbertd "$config" 2>/run/log &
    daemon=$!
    tries=0
    until hilbertctl status >/run/status 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] && kill -0 $daemon 2>/dev/null || break
        sleep 0.1
    done
    grep -q quadrotor /run/status || { cat /run/status /run/log; fail "hilbertctl status: no daemon with the installed configuration"; }
    /usr/bin/python3 -c 'import hilbert; print("Python sees", hilbert.Client(timeout=20).status().name)' || fail "Python does not see the daemon"
    kill $daemon
    wait $daemon || fail "hilbertd ended with status $?"

    # the README's examples fly the cart
    setpriv --reuid=hilbertd --regid=hilbertd --init-groups hilbertd "$etc/hilbertd/cart.yaml" 2>/run/log &
    daemon=$!
    { /run/shared && /run/static && /usr/bin/python3 "$source/clients/python/examples/cart.py"; } 2>/run/errors ||
        { tail -n 3 /run/errors /run/log; fail "the examples do not fly the cart"; }
    kill $daemon
    wait $daemon || fail "hilbertd ended with status $?"
}

# ---- outside ----

option() {
    meson introspect "$build" --buildoptions | python3 -c \
        'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"
}
prefix=$(option prefix) etc=$(option sysconfdir) lib=$(option libdir)
case $etc in /*) ;; *) etc=$prefix/$etc ;; esac
if [ "${3:-}" = inside ]; then
    installed_for_good
    exit $bad
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
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
share/bash-completion/completions/hilbert-train
share/zsh/site-functions/_hilbert
share/hilbertd/hilbert.proto
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

# built to resist: a build that optimises also checks the sizes of strings and copies
case $(option optimization),$(option b_sanitize) in
[123s],none) checked= ;;
*) checked=--unfortified ;;
esac
/usr/bin/python3 "$source/tests/system/hardening.py" $checked "$root$prefix"/bin/* "$root$prefix"/sbin/* \
    "$root$prefix/$lib"/*.so ||
    fail "programs are not hardened"

# every configuration, and its model
for config in "$source"/config/*.yaml; do
    cmp -s "$config" "$root$etc/hilbertd/${config##*/}" || fail "$config is not installed"
    model=$(sed -n 's/^model: *"\{0,1\}\([^" ]*\).*/\1/p' "$config")
    [ -e "$root$prefix/share/hilbertd/models/$model" ] || fail "$config: model $model is not installed"
done

# the Python package by pip, from a copy: nothing is left in the tree
if /usr/bin/python3 -m pip --version >/dev/null 2>&1; then
    mkdir -p "$root/tree/clients" "$root/pip"
    cp "$source/meson.build" "$root/tree/"
    cp -r "$source/proto" "$root/tree/"
    cp -r "$source/clients/python" "$root/tree/clients/"
    (cd "$root/tree" && /usr/bin/python3 -m pip install --quiet --no-index \
        --disable-pip-version-check --root-user-action=ignore --target "$root/pip" clients/python) || fail "pip install: status $?"
    (cd "$root/pip" && /usr/bin/python3 -c 'import hilbert; hilbert.Client().close()') || fail "pip's Python package"
    ls -d "$root"/pip/hilbert-[0-9]*.dist-info >/dev/null || fail "pip's package has no version"
else
    echo "SKIPPED: pip install clients/python: no pip (python3-pip)"
fi

# all the rest as it is on the machine afterwards
if [ "$prefix" != /usr/local ]; then
    echo "SKIPPED: installation for good: the prefix is $prefix, not /usr/local"
elif unshare --mount true 2>/dev/null; then
    unshare --mount sh "$0" "$build" "$source" inside || fail "as installed for good"
else
    echo "SKIPPED: installation for good: only root can try it, where mount namespaces are permitted"
fi
exit $bad
