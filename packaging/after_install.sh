#!/bin/sh
# After `meson install`: what the scripts of a Debian package would do, and what to do next. Installation into a staging
# folder (DESTDIR) or by another user than root leaves the machine alone.
#
# usage: after_install.sh PREFIX SYSCONFDIR
set -eu
prefix=$1 etc=$2
[ -z "${DESTDIR:-}" ] || exit 0
config=$etc/hilbertd/hilbertd.yaml
# meson does not show what its scripts print
if (exec >/dev/tty) 2>/dev/null; then exec >/dev/tty; fi

if [ "$(id -u)" != 0 ]; then
    echo "not root: no user, no /run folder and no loader cache were made; $prefix/sbin/hilbertd can be run by hand"
    exit 0
fi
ldconfig
if command -v systemd-sysusers >/dev/null && command -v systemd-tmpfiles >/dev/null; then
    systemd-sysusers "$prefix/lib/sysusers.d/hilbertd.conf"
    systemd-tmpfiles --create "$prefix/lib/tmpfiles.d/hilbertd.conf"
else
    getent passwd hilbertd >/dev/null || useradd --system --user-group --no-create-home --shell /usr/sbin/nologin hilbertd
    install -d -m 0755 -o hilbertd -g hilbertd /run/hilbertd
fi
[ ! -d /run/systemd/system ] || systemctl daemon-reload

echo
echo "hilbertd is installed. Its configuration is $config. Next:"
if [ -d /run/systemd/system ]; then
    echo "  systemctl enable --now hilbertd"
else
    echo "  setpriv --reuid=hilbertd --regid=hilbertd --init-groups $prefix/sbin/hilbertd $config &"
fi
echo "  hilbertctl status"
