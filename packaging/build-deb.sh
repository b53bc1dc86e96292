#!/bin/sh
# Builds the Debian packages from the files that git knows, in a folder of its own: the tree is left as it is.
#
# usage: build-deb.sh [--output FOLDER] [--revision N] [--lintian]
#   --output FOLDER  where the packages go; else build-deb in the tree
#   --revision N     Debian revision; else that of packaging/debian/changelog
#   --lintian        also run lintian; its errors are errors of this script
# DEB_BUILD_OPTIONS=nocheck leaves the unit tests out. Installs what is missing.
set -eu
cd "$(dirname "$0")/.."

output=$PWD/build-deb revision='' lintian=no
while [ $# -gt 0 ]; do
    case $1 in
    --output) output=${2:?"build-deb.sh: --output needs a folder"}; shift ;;
    --revision) revision=${2:?"build-deb.sh: --revision needs a number"}; shift ;;
    --lintian) lintian=yes ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "build-deb.sh: unknown option '$1' (try --help)" >&2; exit 2 ;;
    esac
    shift
done

sh packaging/deps.sh --packaging

version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" meson.build | head -n 1)
packaged=$(sed -n '1s/.*(\(.*\)-.*).*/\1/p' packaging/debian/changelog)
[ "$version" = "$packaged" ] || {
    echo "build-deb.sh: meson.build says version $version, packaging/debian/changelog $packaged: add a changelog entry" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
git ls-files -z | tar --null --files-from=- -c | tar -x -C "$work/tree"
mv "$work/tree/packaging/debian" "$work/tree/debian"
[ -z "$revision" ] || sed -i "1s/-[^)]*)/-$revision)/" "$work/tree/debian/changelog"

(cd "$work/tree" && dpkg-buildpackage -us -uc -b) >"$work/log" 2>&1 || {
    tail -n 60 "$work/log" | cut -c 1-300 >&2
    echo "build-deb.sh: dpkg-buildpackage failed" >&2
    exit 1
}
if [ $lintian = yes ]; then
    # root because containers have no other user; the distribution because the tree is no upload
    lintian --allow-root --fail-on error --suppress-tags bad-distribution-in-changes-file "$work"/*.changes
fi
mkdir -p "$output"
mv "$work"/*.deb "$output/"
ls "$output"/*.deb
