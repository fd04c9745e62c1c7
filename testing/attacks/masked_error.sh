#!/bin/bash
# A storage refuses to read the former version of a file while a backup compares with it: a storage error of the
# deciding stage, met while the source is still being read. It must be told as that, and not as an
# interruption (130).
#
# masked_error.sh [FOLDER]: FOLDER is empty. CUTPOINT names the binary. Needs python3, for an S3 server.
# Exit code: 0 held, 1 fell, 77 the condition did not occur.
set -u
here=$(cd "$(dirname "$0")" && pwd)
C=$(command -v "${CUTPOINT:-cutpoint}") || { echo "CONDITION DID NOT OCCUR: no program"; exit 77; }
C=$(realpath "$C")
command -v python3 >/dev/null || { echo "CONDITION DID NOT OCCUR: no python3"; exit 77; }
if [ $# -gt 0 ]; then D=$(realpath "$1"); else D=$(mktemp -d) || exit 77; fi
[ -n "$D" ] && cd "$D" || exit 77
server=
finish() {
    [ -z "$server" ] || kill "$server"
    rm -rf "$D/src" "$D/home" "$D/out" "$D/denied" "$D/port" "$D/server.log"
    [ $# -gt 0 ] || rmdir "$D" 2>/dev/null
}
trap 'finish "$@"' EXIT
held() { echo "HELD: $1"; exit 0; }
fell() { echo "FELL: $1"; exit 1; }
skip() { echo "CONDITION DID NOT OCCUR: $1"; exit 77; }
mkfifo port
python3 "$here/lib/s3_server.py" --deny-regions "$D/denied" >port 2>server.log &
server=$!
read -r port <port || skip "no server: $(tail -1 server.log)"
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_REGION=us-east-1 AWS_ENDPOINT_URL=http://127.0.0.1:$port

met=0 runs=0
for threads in 1 2 4; do
    # Less than goes round in the stages, and more.
    for size in 3000000 30000000; do
        runs=$((runs + 1))
        rm -rf src home denied
        mkdir src home
        export HOME=$D/home XDG_STATE_HOME=$D/home XDG_CACHE_HOME=$D/home CUTPOINT_REPO=s3://bucket/repo$runs
        head -c $size /dev/urandom >src/a
        "$C" init --encryption none --delta on >out 2>&1 || skip "init: $(tail -1 out)"
        "$C" backup src -q --threads $threads >out 2>&1 || skip "first backup: $(tail -1 out)"
        printf x | dd of=src/a bs=1 seek=1500000 conv=notrunc 2>/dev/null
        : >denied
        "$C" backup src --threads $threads >out 2>&1; rc=$?
        [ -s denied ] || continue
        met=$((met + 1))
        case $rc in
            # What cannot be compared with may be done without.
            0 | 1) ;;
            130) fell "$threads threads, $size bytes: exit code 130: $(grep '^cutpoint' out)" ;;
            *) grep -q 'AccessDenied' out || fell "$threads threads, $size bytes: exit code $rc: $(grep '^cutpoint' out)" ;;
        esac
    done
done
[ $met -gt 0 ] || skip "nothing had to be read"
held "$met of $runs backups were refused a read, and none called it an interruption"
