#!/bin/sh
# Installs the Debian packages that building and testing need and that are missing. Silent when none is.
#
# usage: deps.sh [--list] [--minimal] [--packaging] [--cross] [--browser] [--torch]
#   --list       print the packages and install nothing
#   --minimal    only what the daemon and its library need
#   --packaging  also what building packages and trying them under systemd needs
#   --cross      also what tests/cross.sh needs
#   --browser    also what trying hilbert-view's page in a browser, and its alerts with promtool, needs
#   --torch      also what trying hilbert-convert needs (600 MB)
set -eu

build="gcc libc6-dev meson ninja-build pkg-config"
daemon="libzmq3-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libopenblas-dev libyaml-dev
        libsystemd-dev libjansson-dev libzstd-dev"
clients="libmujoco-dev libhdf5-dev zlib1g-dev libopenmpi-dev openmpi-bin libgif-dev libpng-dev libwebsockets-dev gnuplot-nox python3
         python3-zmq python3-protobuf python3-numpy"
tests="libcmocka-dev liblzma-dev clang libclang-rt-14-dev scdoc man-db systemd python3-pip python3-setuptools
       python3-wheel procps zsh zstd"
# command:package, of what often comes from elsewhere than Debian: installed where the command is missing
commands="node:nodejs npm:npm"
packaging="bash-completion debhelper debootstrap dh-python dpkg-dev lintian systemd-container"
cross="gcc-aarch64-linux-gnu qemu-user"
browser="chromium chromium-driver fonts-dejavu-core"
torch="python3-torch"

packages="$build $daemon $clients $tests"
others=$commands
list=no
for option; do
    case $option in
    --list) list=yes ;;
    --minimal) packages="$build $daemon" others= ;;
    --packaging) packages="$packages $packaging" ;;
    --cross) packages="$packages $cross" ;;
    --browser) packages="$packages $browser" others="$others promtool:prometheus" ;;
    --torch) packages="$packages $torch" ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "deps.sh: unknown option '$option' (try --help)" >&2; exit 2 ;;
    esac
done
if [ $list = yes ]; then
    printf '%s\n' $packages
    for pair in $others; do printf '%s\n' "${pair#*:}"; done
    exit 0
fi

missing=
for package in $packages; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
for pair in $others; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0

run=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "deps.sh: missing:$missing" >&2
        echo "deps.sh: install them as root (apt-get install$missing), or install sudo" >&2
        exit 1
    }
    run=sudo
fi
echo "deps.sh: installing$missing"
# promtool is what is wanted: its package would also start a server
case $missing in
*prometheus*) [ ! -d /run/systemd/system ] || $run systemctl mask --quiet prometheus.service ;;
esac
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq
# shellcheck disable=SC2086 # one word per package
$run apt-get install -y -qq --no-install-recommends $missing >/dev/null
