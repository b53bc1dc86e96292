#!/bin/sh
# Static analysis of lib, daemon, proto and clients: clang-tidy with the profile in .clang-tidy, cppcheck, and gcc's
# -fanalyzer. Prints what they find and ends with a line "N findings"; exit status 1 if there are any. It takes about
# fifteen processor minutes. What is no fault is suppressed where it stands, with its reason.
#
# usage: run.sh [--only clang-tidy|cppcheck|gcc] [FILE...]     all files unless given
# needs: apt-get install clang-tidy cppcheck, and a configured build/ (meson setup build; ninja -C build)
set -eu
cd "$(dirname "$0")/../.."

only='clang-tidy cppcheck gcc'
case ${1-} in
-h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
--only) only=$2; shift 2 ;;
esac
for tool in $only; do
    command -v "$tool" >/dev/null || { echo "run.sh: $tool is missing: apt-get install clang-tidy cppcheck" >&2; exit 1; }
done
[ -f build/compile_commands.json ] || { echo "run.sh: no build/: meson setup build; ninja -C build" >&2; exit 1; }
[ $# -gt 0 ] || set -- $(git ls-files 'lib/*.c' 'daemon/*.c' 'proto/*.c' 'clients/*.c')

out=build/analysis
mkdir -p $out
: >$out/findings.txt
export out

# one FILE: a line for each finding
cat >$out/clang-tidy.sh <<'END'
case $1 in
lib/base/base.c) clang-tidy --quiet -p build "$1" ;;
*) clang-tidy --quiet -p build --extra-arg=-include --extra-arg="$PWD/tests/analysis/assume.h" "$1" ;;
esac 2>/dev/null | grep -E '(warning|error): ' | sed "s|$PWD/||; s|^build/||; s|^\.\./||" || true
END
# with the arguments that the file is compiled with. Kernels are left out: they take and free nothing, and straight-line
# code of that length takes gcc gigabytes. gcc 12 does not know that read and fread fill a buffer
cat >$out/gcc.sh <<'END'
case $1 in lib/dynamics/kernels_*) exit 0 ;; esac
python3 - "$1" <<'PY'
import json, os, shlex, subprocess, sys
for entry in json.load(open("build/compile_commands.json")):
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
    if path == sys.argv[1] and "double" not in entry["command"]:
        drop = {"-o", "-MF", "-MQ"}
        words, skip = [], False
        for word in shlex.split(entry["command"]):
            if not skip and word not in drop and not word.startswith(("-O", "-M", "-D_FORTIFY", "-fdiagnostics")) and word != "ccache":
                words.append(word)
            skip = word in drop
        assume = [] if path == "lib/base/base.c" else ["-include", os.path.abspath("tests/analysis/assume.h")]
        words[0] = "gcc"
        r = subprocess.run(words + ["-O0", "-fanalyzer", "-Wno-analyzer-use-of-uninitialized-value", "-Wno-unused-value", "-o", "/dev/null"] + assume, cwd=entry["directory"],
                           stderr=subprocess.PIPE, text=True)
        # what lies in a macro of assume.h is the file's
        own = os.path.abspath("tests/analysis/assume.h")
        seen = {l.replace(own, path, 1).replace("../", "", 1) for l in r.stderr.splitlines() if "warning: " in l or "error: " in l}
        print("\n".join(sorted(seen)))
        break
PY
END

for tool in $only; do
    echo "== $tool"
    case $tool in
    cppcheck)
        cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr -j 2 -D_GNU_SOURCE \
            -D__x86_64__ --suppress=missingIncludeSystem --suppressions-list=tests/analysis/cppcheck.txt \
            --template='{file}:{line}:{column}: warning: {message} [cppcheck:{id}]' -Ilib -Idaemon -Iclients -Iproto "$@" \
            2>&1 | grep -E 'warning: ' >$out/$tool.txt || true
        ;;
    *) printf '%s\n' "$@" | xargs -P 2 -n 1 sh $out/$tool.sh | grep . | sort -u >$out/$tool.txt || true ;;
    esac
    # what tests/analysis/suppressed.txt says is none
    awk 'NR == FNR { if ($1 !~ /^#/) none[$1 " " $2]; next }
        { file = $1; sub(":.*", "", file); check = $NF; gsub(/[][]/, "", check); sub(",.*", "", check)
          sub(/^-W(error=)?/, "", check); if (!((file " " check) in none)) print }' \
        tests/analysis/suppressed.txt $out/$tool.txt >$out/left.txt
    mv $out/left.txt $out/$tool.txt
    cat $out/$tool.txt
    cat $out/$tool.txt >>$out/findings.txt
done
n=$(wc -l <$out/findings.txt)
echo "$n findings"
[ "$n" = 0 ]
