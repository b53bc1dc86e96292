#!/bin/sh
# Installs the Debian packages that building and testing need and that are missing. Silent when none is.
#
# usage: deps.sh [--list] [--minimal] [--packaging] [--cross]
#   --list       print the packages and install nothing
#   --minimal    only what the daemon and its library need
#   --packaging  also what building packages and trying them under systemd needs
#   --cross      also what tests/cross.sh needs
set -eu

build="gcc libc6-dev meson ninja-build pkg-config"
daemon="libzmq3-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libopenblas-dev libyaml-dev
        libsystemd-dev libjansson-dev libzstd-dev"
clients="libmujoco-dev libhdf5-dev libopenmpi-dev openmpi-bin libgif-dev libpng-dev gnuplot-nox python3
         python3-zmq python3-protobuf python3-numpy"
tests="libcmocka-dev liblzma-dev clang libclang-rt-14-dev scdoc man-db systemd python3-pip python3-setuptools
       python3-wheel procps zsh"
packaging="bash-completion debhelper debootstrap dh-python dpkg-dev lintian systemd-container"
cross="gcc-aarch64-linux-gnu qemu-user"

packages="$build $daemon $clients $tests"
list=no
for option; do
    case $option in
    --list) list=yes ;;
    --minimal) packages="$build $daemon" ;;
    --packaging) packages="$packages $packaging" ;;
    --cross) packages="$packages $cross" ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "deps.sh: unknown option '$option' (try --help)" >&2; exit 2 ;;
    esac
done
if [ $list = yes ]; then
    printf '%s\n' $packages
    exit 0
fi

missing=
for package in $packages; do
    dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
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
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq
# shellcheck disable=SC2086 # one word per package
$run apt-get install -y -qq --no-install-recommends $missing >/dev/null
