#!/bin/sh
# The unit files as installed: known to systemd without a complaint, and closed. Needs systemd-analyze.
#
# usage: test_units.sh BUILD
set -eu
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

command -v systemd-analyze >/dev/null || {
    echo "SKIPPED: no systemd-analyze: install systemd"
    exit 77
}
DESTDIR=$root meson install -C "$build" --no-rebuild --quiet
units=$(dirname "$(find "$root" -name hilbertd.service)")
bad=0
fail() {
    echo "FAILED: $*"
    bad=1
}

# in a root of their own, with systemd's own units beside them: paths of programs are checked as well
mkdir -p "$root/lib/systemd"
cp -r /lib/systemd/system "$root/lib/systemd/"
for unit in hilbertd.service hilbertd@.service hilbertd.timer hilbertd@.timer hilbert-mavlink.service hilbert-view.service; do
    said=$(systemd-analyze verify --man=no --root="$root" "${units#"$root"}/$unit" 2>&1) || fail "verify $unit: status $?"
    [ -z "$said" ] || fail "verify $unit: $said"
done

# at most 1.5 of 10 (the threshold is in tenths), alone and with each drop-in
for dropin in none keep-awake local-only no-realtime; do
    offline=$root/offline-$dropin
    mkdir -p "$offline/hilbertd.service.d"
    cp "$units/hilbertd.service" "$offline/"
    cp "$units/hilbertd@.service" "$offline/hilbertd@vehicle.service"
    [ $dropin = none ] || cp "$(find "$root" -name $dropin.conf -path '*/doc/*')" "$offline/hilbertd.service.d/"
    for unit in hilbertd.service hilbertd@vehicle.service; do
        report=$(systemd-analyze security --offline=true --threshold=15 --no-pager "$offline/$unit") || fail "security $unit: above 1.5"
        echo "drop-in $dropin: $(echo "$report" | tail -n 1)"
        echo "$report" | grep -q 'Overall exposure level' || fail "security $unit: no verdict"
    done
done
systemd-analyze security --offline=true --threshold=15 --no-pager "$units/hilbert-view.service" | tail -n 1 ||
    fail "security hilbert-view.service: above 1.5"

# the user and the folder that the units expect
mkdir -p "$root/etc"
systemd-sysusers --root="$root" "$(find "$root" -path '*/sysusers.d/hilbertd.conf')"
grep -q '^hilbertd:' "$root/etc/passwd" || fail "no user hilbertd"
if [ "$(id -u)" = 0 ]; then
    systemd-tmpfiles --root="$root" --create "$(find "$root" -path '*/tmpfiles.d/hilbertd.conf')"
    [ "$(stat -c %a "$root/run/hilbertd")" = 755 ] || fail "/run/hilbertd is not as it should be"
fi
exit $bad
