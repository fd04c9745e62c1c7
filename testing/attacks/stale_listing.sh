#!/bin/bash
# Listings that are 4 s old must not make "no repository found" (10) or "the repository is older" (12).
# Verdict: exit 0 held, 1 fell, 77 the condition did not occur (python3 is needed).
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
cd "$work" || exit 77
program=${CUTPOINT:-cutpoint}
command -v python3 > /dev/null || { echo "SKIPPED: no python3"; exit 77; }
mkfifo port
python3 "$here/lib/s3_server.py" --listing-lag 4 > port 2> server.log &
server=$!
trap 'kill $server; [ $# -gt 0 ] || rm -rf "$work"' EXIT
read -r port < port || exit 77
export AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_REGION=us-east-1 AWS_ENDPOINT_URL=http://127.0.0.1:$port
export CUTPOINT_REPO=s3://bucket/repo HOME=$work
mkdir source && echo hello > source/x

fell=0
expect() {
  local wanted=$1
  shift
  local began=$SECONDS
  "$program" "$@" > out 2>&1
  local code=$?
  echo "$1 ${2:-}: exit $code after $((SECONDS - began)) s"
  [ $code = "$wanted" ] || { echo "FELL: exit $code instead of $wanted"; tail -2 out; fell=1; }
}
"$program" init --encryption none > out 2>&1 || { tail -3 out; exit 77; }
expect 0 snapshots
expect 0 backup source
expect 0 snapshots
expect 0 config --compression-level 5
expect 0 config
# Nothing is there by any name: that is said at once.
export CUTPOINT_REPO=s3://bucket/other
expect 10 snapshots
[ $fell = 0 ] || exit 1
grep -q '^hidden: ' server.log || { echo "CONDITION DID NOT OCCUR: no listing hid anything"; exit 77; }
