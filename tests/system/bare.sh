#!/bin/sh
# The README's two commands on a bare Debian 12: makes one in a folder with debootstrap, clones this tree's HEAD into it,
# runs `sh clients/demo.sh` and `sh tests/run.sh` there as root, and prints how each of them ended.
# Opt-in: needs root, the network and about 5 GB; the first run takes half an hour.
#
# usage: bare.sh [--quick] [--shell]
#   --quick  tests/run.sh --quick: without the clang and sanitizer builds
#   --shell  afterwards, a shell in there
#
# Everything is in /var/tmp/bare-hilbertd (or $BARE_FOLDER): base (as debootstrap made it) and packages (downloads) are
# kept for the next run; root is made anew each time; demo.log and run.log have all the output.
set -eu
cd "$(dirname "$0")/../.."

quick='' shell=no
for option; do
    case $option in
    --quick) quick=--quick ;;
    --shell) shell=yes ;;
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "bare.sh: unknown option '$option' (try --help)" >&2; exit 2 ;;
    esac
done
[ "$(id -u)" = 0 ] || { echo "bare.sh: only root can change into another root folder" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "bare.sh: debootstrap is missing: apt-get install debootstrap" >&2; exit 1; }
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "bare.sh: note: what is not committed is left out"

folder=${BARE_FOLDER:-/var/tmp/bare-hilbertd}
base=$folder/base root=$folder/root
mkdir -p "$folder/packages/partial"

if [ ! -f "$base.complete" ]; then
    # the mirror that this machine itself uses, whichever that is
    mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "bookworm" && $2 == "main" { print $3; exit }')
    [ -n "$mirror" ] || { echo "bare.sh: apt on this machine knows no mirror of bookworm" >&2; exit 1; }
    echo "== debootstrap"
    rm -rf "$base"
    debootstrap --variant=minbase bookworm "$base" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
        { tail -n 20 "$folder/debootstrap.log"; exit 1; }
    # packages are installed to be thrown away: nothing need wait for the disk
    echo force-unsafe-io >"$base/etc/dpkg/dpkg.cfg.d/force-unsafe-io"
    touch "$base.complete"
fi

rm -rf "$root"
cp -a --reflink=auto "$base" "$root"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
git clone --quiet --no-hardlinks . "$root/hilbertd"
echo "== $(git log -1 --format='%h %s')"

# inside COMMAND...: runs it in the tree in there, with processes and mounts of its own that end with it
inside() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --pid --fork --kill-child sh -c '
        root=$1 packages=$2
        shift 2
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
        mount --bind "$packages" "$root/var/cache/apt/archives"
        exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" \
            chroot "$root" sh -c "cd /hilbertd && exec \"\$@\"" sh "$@"' sh "$root" "$folder/packages" "$@"
}

bad=0
# try NAME LINES COMMAND...: runs it, keeps NAME.log, shows the last lines
try() {
    name=$1 lines=$2
    shift 2
    echo "== $*"
    status=0
    inside "$@" >"$folder/$name.log" 2>&1 </dev/null || status=$?
    tail -n "$lines" "$folder/$name.log"
    echo "== exit status $status"
    [ $status = 0 ] || bad=1
}
try demo 12 sh clients/demo.sh
# shellcheck disable=SC2086 # no word, or one
try run 16 sh tests/run.sh $quick
[ $shell = no ] || inside sh || true
exit $bad
