#!/bin/bash
# A store through a shared mapping into a page that is dirty already changes no time of the file. A backup
# between two such stores has the first; the next one must have the second.
#
# mmap_stale.sh [FOLDER [SECONDS]]: FOLDER is empty and on a disk; SECONDS (4) pass between the first store
# and the first backup; with 30 or more the page can have been written, and the condition does not occur.
# CUTPOINT names the binary. Exit code: 0 held, 1 fell, 77 the condition did not occur.
set -u
export CUTPOINT=${CUTPOINT:-cutpoint}
if [ $# -gt 0 ]; then D=$(realpath "$1"); else D=$(mktemp -d) || exit 77; fi
[ -n "$D" ] && cd "$D" || exit 77
finish() {
    rm -rf "$D/src" "$D/back" "$D/repo" "$D/state" "$D/cache" "$D/out"
    [ $# -gt 0 ] || rmdir "$D" 2>/dev/null
}
trap 'finish "$@"' EXIT
skip() { echo "CONDITION DID NOT OCCUR: $1"; exit 77; }
command -v python3 >/dev/null || skip "no python3"
export XDG_STATE_HOME=$D/state XDG_CACHE_HOME=$D/cache CUTPOINT_REPO=$D/repo

mkdir src
"$CUTPOINT" init --encryption none >/dev/null 2>&1 || skip "no repository"
python3 - "${2:-4}" <<'P' || skip "the second store changed a time, or there was no first backup"
import mmap, os, subprocess, sys, time
f = os.open('src/db', os.O_RDWR | os.O_CREAT)
os.ftruncate(f, 65536)
m = mmap.mmap(f, 65536)
m[0:8] = b'version1'    # A fault: mtime and ctime are set.
before = os.stat('src/db')
time.sleep(float(sys.argv[1]))
with open('out', 'w') as out:
    done = subprocess.run([os.environ['CUTPOINT'], 'backup', 'src'], stdout=out, stderr=out)
m[0:8] = b'version2'    # No fault: nothing is set.
after = os.stat('src/db')
m.close()
os.close(f)
same = (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
sys.exit(0 if same and done.returncode == 0 else 1)
P
times=$(stat -c '%y %z' src/db)
sync; sleep 1
[ "$(stat -c '%y %z' src/db)" = "$times" ] || skip "writing the page changed a time"
"$CUTPOINT" backup src >> out 2>&1 || skip "the second backup failed: $(tail -1 out)"
"$CUTPOINT" restore "latest:$D/src" --to back >> out 2>&1
if cmp -s src/db back/db; then
    echo "HELD: the second backup has $(head -c 8 back/db)"; exit 0
fi
echo "FELL: the source has $(head -c 8 src/db), the second backup $(head -c 8 back/db 2>&1)"; exit 1
