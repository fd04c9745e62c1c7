#!/bin/bash
# A put fails in the middle of a backup (at a limit of file sizes, as on a full disk) while workers compress
# slowly, so that the source is far ahead and the stages wait for each other. The backup must end by
# itself, with 14.
#
# full_hang.sh [FOLDER]: FOLDER is empty. CUTPOINT names the binary.
# Exit code: 0 held, 1 fell, 77 the condition did not occur.
set -u
C=${CUTPOINT:-cutpoint}
if [ $# -gt 0 ]; then D=$(realpath "$1"); else D=$(mktemp -d) || exit 77; fi
[ -n "$D" ] && cd "$D" || exit 77
P=
finish() {
    [ -z "$P" ] || kill -KILL "$P" 2>/dev/null
    rm -rf "$D/words" "$D/repo" "$D/state" "$D/cache" "$D/out"
    [ $# -gt 0 ] || rmdir "$D" 2>/dev/null
}
trap 'finish "$@"' EXIT
held() { echo "HELD: $1"; exit 0; }
fell() { echo "FELL: $1"; exit 1; }
skip() { echo "CONDITION DID NOT OCCUR: $1"; exit 77; }
export XDG_STATE_HOME=$D/state XDG_CACHE_HOME=$D/cache CUTPOINT_REPO=$D/repo

# Words: they take time to compress, and the containers are larger than the limit.
awk 'BEGIN { srand(1)
    for (i = 0; i < 5000; i++) for (n = 3 + int(rand() * 7); n > 0; n--) w[i] = w[i] substr("abcdefghij", 1 + int(rand() * 10), 1)
    for (i = 0; i < 6400000; i++) printf "%s ", w[int(rand() * 5000)] }' > words
"$C" init --encryption none --container-size 16M --compression-level 12 >out 2>&1 || skip "init: $(tail -1 out)"
met=0
for threads in 1 2 4; do
    (ulimit -f 8000; exec "$C" backup words -q --threads $threads) >out 2>&1 & P=$!
    # It waits for ever if it takes no processor time for 5 seconds, however busy the machine is.
    idle=0 last=
    while kill -0 $P 2>/dev/null && [ $idle -lt 25 ]; do
        sleep 0.2
        now=$(cut -d' ' -f14,15 /proc/$P/stat 2>/dev/null)
        if [ "$now" = "$last" ]; then idle=$((idle + 1)); else idle=0 last=$now; fi
    done
    if kill -0 $P 2>/dev/null; then
        kill -INT $P; sleep 3
        if kill -0 $P 2>/dev/null; then fell "$threads threads: it waits for ever, and SIGINT does not end it"; fi
        fell "$threads threads: it waits for ever"
    fi
    wait $P; rc=$?; P=
    case $rc in
        0) ;;
        14) met=$((met + 1)) ;;
        *) fell "$threads threads: exit code $rc instead of 14: $(tail -2 out)" ;;
    esac
done
[ $met -gt 0 ] || skip "no put failed: $(tail -1 out)"

# A signal ends such a backup, within the limit of 30 seconds for what is to be published.
tickets=$(ls repo/tickets | wc -l)
(ulimit -f 8000; exec "$C" backup words -q --threads 2) >out 2>&1 & P=$!
for _ in $(seq 1 500); do
    [ "$(ls repo/tickets | wc -l)" -gt "$tickets" ] && break
    sleep 0.02
done
kill -TERM $P || skip "the backup ended before the signal: $(tail -1 out)"
for _ in $(seq 1 160); do
    kill -0 $P 2>/dev/null || break
    sleep 0.2
done
kill -0 $P 2>/dev/null && fell "SIGTERM does not end it within 32 seconds"
wait $P; rc=$?; P=
case $rc in
    130) ;;
    14) skip "the put failed before the signal: $(tail -1 out)" ;;
    *) fell "exit code $rc instead of 130 after SIGTERM: $(tail -2 out)" ;;
esac
held "$met of 3 backups ended with 14, and one with 130 after a signal"
