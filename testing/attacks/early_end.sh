#!/bin/bash
# Reads of a file end before its size: at 300,000 of 2,000,000 bytes, and in the second of three extents of
# a sparse file. Each must be named, exit code 1, be restored as far as it was read and with nothing
# displaced, and be read again by the next backup.
#
# early_end.sh [FOLDER]: FOLDER is empty. Needs cc. CUTPOINT names the binary.
# Exit code: 0 held, 1 fell, 77 the condition did not occur.
set -u
C=${CUTPOINT:-cutpoint}
if [ $# -gt 0 ]; then D=$(realpath "$1"); else D=$(mktemp -d) || exit 77; fi
[ -n "$D" ] && cd "$D" || exit 77
finish() {
    rm -rf "$D/src" "$D/back" "$D/repo" "$D/state" "$D/cache" "$D/out" "$D/short.c" "$D/short.so" "$D/cuts"
    [ $# -gt 0 ] || rmdir "$D" 2>/dev/null
}
trap 'finish "$@"' EXIT
held() { echo "HELD: $1"; exit 0; }
fell() { echo "FELL: $1"; exit 1; }
skip() { echo "CONDITION DID NOT OCCUR: $1"; exit 77; }
command -v cc >/dev/null || skip "no cc"
export XDG_STATE_HOME=$D/state XDG_CACHE_HOME=$D/cache CUTPOINT_REPO=$D/repo

# Files are told by their sizes.
cat > short.c <<'P'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
ssize_t pread64(int fd, void *bytes, size_t len, off64_t at) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    struct stat64 stat;
    if (fstat64(fd, &stat) == 0 && S_ISREG(stat.st_mode)) {
        off64_t end = stat.st_size == 2000000 ? 300000 : stat.st_size == 40000000 && at < 20000000 ? 12300000 : -1;
        if (end >= 0 && at + (off64_t)len > end) {
            int log = open(getenv("SHORT_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
            if (log >= 0) { if (write(log, "x", 1)) {} close(log); }
            len = at < end ? (size_t)(end - at) : 0;
            if (len == 0) return 0;
        }
    }
    return real(fd, bytes, len, at);
}
P
cc -shared -fPIC -O1 -o short.so short.c -ldl 2>out || skip "cc: $(head -1 out)"

mkdir src
head -c 2000000 /dev/urandom > src/whole
for at in 0 12 24; do
    head -c 1000000 /dev/urandom | dd of=src/sparse bs=1000000 seek="$at" conv=notrunc status=none
done
truncate -s 40000000 src/sparse
"$C" init --encryption none >/dev/null 2>&1 || skip "no repository"
SHORT_LOG=$D/cuts LD_PRELOAD=$D/short.so "$C" backup src > out 2>&1; code=$?
[ -s cuts ] || skip "no read was cut short: the program reads in another way"
[ "$code" = 1 ] || fell "exit code $code, not 1: $(cat out)"
for name in whole sparse; do
    grep -q "$D/src/$name" out || fell "$name is not named: $(cat out)"
done
"$C" restore "latest:$D/src" --to back > out 2>&1
grep -q "snapshot .* was created with 2 problems" out || fell "restore does not tell of the problems: $(cat out)"
for name in whole sparse; do
    [ -e "back/$name" ] || continue    # Not saved at all.
    cmp -s -n "$(stat -c %s "back/$name")" "src/$name" "back/$name" || fell "$name has bytes of another place"
    grep -q "$name" out || fell "restore does not name $name: $(cat out)"
done
"$C" backup src > out 2>&1 || fell "the next backup: $(cat out)"
rm -rf back; "$C" restore "latest:$D/src" --to back > out 2>&1 || fell "restore: $(cat out)"
diff -r src back >/dev/null || fell "the next backup took over what was not whole"
held "both files were named, nothing was displaced, and the next backup read them again"
