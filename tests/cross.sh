#!/bin/sh
# Builds for aarch64 and runs the unit tests under qemu. Opt-in: it downloads about 150 MB and takes some minutes.
# Debian's arm64 packages are unpacked into a folder of their own; nothing is installed but the compiler and qemu.
#
# usage: cross.sh [FOLDER]     FOLDER (else build-aarch64) keeps sysroot and build for the next run
set -eu
cd "$(dirname "$0")/.."

case ${1-} in
-h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
-*) echo "cross.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
esac
folder=${1-build-aarch64}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
sysroot=$folder/sysroot
triplet=aarch64-linux-gnu

sh packaging/deps.sh --cross

# an apt of its own, which believes to be on an empty arm64 machine, resolves what the packages depend on
fetch() {
    apt=$folder/apt
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/sources.list.d"
    : >"$apt/status"
    echo "deb http://deb.debian.org/debian bookworm main" >"$apt/sources.list"
    set -- -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::Lists="$apt/lists" \
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Dir::Cache::Archives="$apt/archives" \
        -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts="$apt/sources.list.d" \
        -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Debug::NoLocking=true
    apt-get "$@" update
    apt-get "$@" install -y --download-only libc6-dev libcmocka-dev libhdf5-dev libjansson-dev libopenblas-pthread-dev \
        libprotobuf-c-dev libsystemd-dev libyaml-dev libzmq3-dev >/dev/null
}

unpack() {
    mkdir -p "$sysroot/usr/lib" "$sysroot/usr/bin" "$sysroot/usr/sbin"
    for name in lib bin sbin; do ln -sfn usr/$name "$sysroot/$name"; done
    for package in "$folder"/apt/archives/*.deb; do dpkg -x "$package" "$sysroot"; done
    # what update-alternatives would link
    libraries=$sysroot/usr/lib/$triplet
    for file in "$libraries"/openblas-pthread/lib*.so*; do ln -sf "openblas-pthread/${file##*/}" "$libraries/"; done
    ln -sf ../openblas-pthread/pkgconfig/openblas.pc "$libraries/pkgconfig/openblas.pc"
}

if [ ! -f "$sysroot/complete" ]; then
    echo "== sysroot in $sysroot"
    fetch
    unpack
    touch "$sysroot/complete"
fi

cat >"$folder/cross.ini" <<END
[binaries]
c = '$triplet-gcc'
ar = '$triplet-gcc-ar'
strip = '$triplet-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64', '-L', '$sysroot']
[built-in options]
c_args = ['--sysroot=$sysroot']
c_link_args = ['--sysroot=$sysroot']
[properties]
sys_root = '$sysroot'
pkg_config_libdir = '$sysroot/usr/lib/$triplet/pkgconfig:$sysroot/usr/share/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END

echo "== build in $folder/build"
[ -f "$folder/build/build.ninja" ] || meson setup "$folder/build" --cross-file "$folder/cross.ini" -Dsim=disabled \
    -Ddaemon=enabled -Dtrain=enabled -Dtests=enabled
ninja -C "$folder/build"
# emulation is slow: times mean nothing
meson test -C "$folder/build" --no-rebuild --suite unit --timeout-multiplier 20 --print-errorlogs
