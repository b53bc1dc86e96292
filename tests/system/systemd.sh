#!/bin/sh
# The Debian packages under a real systemd: makes a Debian 12 in a folder, installs the packages, boots it as a container
# and has systemd_inside.py go through an operator's life with hilbertd in there. Opt-in: needs root, the network and
# about 1 GB, and takes some minutes. Works where no systemd runs on the host.
#
# usage: systemd.sh [--reuse] [--only PART]...
#        --reuse      takes the packages of the last run
#        --only PART  of systemd_inside.py, e.g. users: what its users may do, and what its sandbox keeps from it
#
# Everything is in ${TMPDIR:-/tmp}/systemd-hilbertd: base (as debootstrap made it, kept for the next run), root (a copy of
# it with the packages), debs.
set -eu
cd "$(dirname "$0")/../.."

reuse=no parts=
while [ $# -gt 0 ]; do
    case $1 in
    --reuse) reuse=yes ;;
    --only) parts="$parts ${2:?"systemd.sh: --only needs a part"}"; shift ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "systemd.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
    esac
    shift
done
[ "$(id -u)" = 0 ] || { echo "systemd.sh: only root can boot a container" >&2; exit 1; }

folder=${TMPDIR:-/tmp}/systemd-hilbertd
base=$folder/base root=$folder/root debs=$folder/debs
mkdir -p "$folder"
sh packaging/deps.sh --packaging

# the packages, and the same once more as an upgrade
export DEB_BUILD_OPTIONS="nocheck noautodbgsym"
if [ $reuse = no ]; then rm -rf "$debs"; fi
if [ ! -d "$debs/1" ]; then
    echo "== packages"
    sh packaging/build-deb.sh --revision 1 --output "$debs/1" --lintian
fi
case " $parts " in
"  " | *" upgrade "*) [ -d "$debs/2" ] || sh packaging/build-deb.sh --revision 2 --output "$debs/2" ;;
esac

if [ ! -f "$base.complete" ]; then
    echo "== debootstrap"
    rm -rf "$base"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$base" >"$folder/debootstrap.log" 2>&1 ||
        { tail -n 20 "$folder/debootstrap.log"; exit 1; }
    touch "$base.complete"
fi

echo "== installation"
rm -rf "$root"
cp -a --reflink=auto "$base" "$root"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/test"
cp -r "$debs" "$root/test/debs"
cp tests/system/systemd_inside.py tests/system/hardening.py "$root/test/"
chroot "$root" sh -c 'export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends /test/debs/1/*.deb' >"$folder/install.log" 2>&1 ||
    { tail -n 20 "$folder/install.log"; exit 1; }

cat >"$root/etc/systemd/system/hilbert-test.service" <<END
[Unit]
Description=the test
After=multi-user.target
[Service]
ExecStart=/usr/bin/python3 -u /test/systemd_inside.py$parts
StandardOutput=append:/test/log
StandardError=append:/test/log
ExecStopPost=systemctl --no-block poweroff
[Install]
WantedBy=default.target
END
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s ../hilbert-test.service "$root/etc/systemd/system/default.target.wants/"

echo "== boot"
: >"$root/test/log"
tail -n +1 -f "$root/test/log" &
tail=$!
trap 'kill $tail' EXIT
timeout 900 systemd-nspawn --quiet --capability=CAP_IPC_LOCK --system-call-filter=@memlock --register=no --keep-unit --boot --directory="$root" >"$folder/boot.log" 2>&1 </dev/null || {
    tail -n 20 "$folder/boot.log"
    echo "systemd.sh: the container did not end by itself within 15 minutes"
    exit 1
}
sleep 1
tail -n 1 "$root/test/log" | grep -q ' passed, 0 failed$'
