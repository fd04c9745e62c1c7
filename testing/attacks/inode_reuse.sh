#!/bin/bash
# A file with two names is read and deleted during a backup, and its inode number is used again by another
# file, with three names, that the walk comes to later. Each file must be restored with its own bytes, and
# the three names as one file.
#
# inode_reuse.sh [FOLDER]: FOLDER is empty, on a file system that uses inode numbers again (ext4).
# CUTPOINT names the binary. Exit code: 0 held, 1 fell, 77 the condition did not occur.
set -u
C=${CUTPOINT:-cutpoint}
if [ $# -gt 0 ]; then D=$(realpath "$1"); else D=$(mktemp -d) || exit 77; fi
[ -n "$D" ] && cd "$D" || exit 77
P=
finish() {
    [ -n "$P" ] && kill -KILL "$P" 2>/dev/null
    rm -rf "$D/src" "$D/back" "$D/repo" "$D/state" "$D/cache" "$D/out"
    [ $# -gt 0 ] || rmdir "$D" 2>/dev/null
}
trap 'finish "$@"' EXIT
held() { echo "HELD: $1"; exit 0; }
fell() { echo "FELL: $1"; exit 1; }
skip() { echo "CONDITION DID NOT OCCUR: $1"; exit 77; }
export XDG_STATE_HOME=$D/state XDG_CACHE_HOME=$D/cache CUTPOINT_REPO=$D/repo

mkdir -p src/a src/m src/z
"$C" init --encryption none >/dev/null 2>&1 || skip "no repository"
echo "the secret of one client" > src/a/1; ln src/a/1 src/a/2
head -c 600M /dev/urandom > src/m/big
ino=$(stat -c %i src/a/1)
"$C" backup src > out 2>&1 & P=$!
is_at_big() { ls -l "/proc/$P/fd" 2>/dev/null | grep -q "src/m/big"; }
until is_at_big; do kill -0 "$P" 2>/dev/null || skip "the backup ended before it could be stopped"; done
kill -STOP "$P"
is_at_big || skip "the backup was stopped too late"
rm src/a/1 src/a/2
for i in $(seq 1 2000); do
    echo "the file of another $i" > src/z/1
    [ "$(stat -c %i src/z/1)" = "$ino" ] && break
    mv src/z/1 "src/z/t$i"
done
[ "$(stat -c %i src/z/1 2>/dev/null)" = "$ino" ] || skip "the number $ino was not used again"
rm -f src/z/t*; ln src/z/1 src/z/2; ln src/z/1 src/z/3
kill -CONT "$P"; wait "$P"; P=
"$C" restore "latest:$D/src/z" --to back >> out 2>&1
for name in 1 2 3; do
    cmp -s "src/z/$name" "back/$name" || fell "z/$name has other bytes: $(cat "back/$name" 2>&1)"
done
[ "$(stat -c %i back/1 back/2 back/3 | sort -u | wc -l)" = 1 ] || fell "the three names are not one file"
# The former snapshot is no proof for this one.
"$C" backup src >> out 2>&1; rm -rf back; "$C" restore "latest:$D/src/z" --to back >> out 2>&1
cmp -s src/z/1 back/1 || fell "the next backup has other bytes: $(cat back/1 2>&1)"
held "inode $ino was used again, and each file has its own bytes"
