#!/bin/bash
# A live backup must not be taken for dead by another user from whom /proc hides it (hidepid=2).
# Verdict: exit 0 held, 1 fell, 77 the condition did not occur (root is needed).
set -u
work=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work" || exit 77
program=${CUTPOINT:-cutpoint}
[ "$(id -u)" = 0 ] || { echo "SKIPPED: root is needed"; exit 77; }
grep -Eqx '[0-9a-f]{32}' /etc/machine-id || { echo "SKIPPED: no /etc/machine-id"; exit 77; }
export CUTPOINT_REPO=$work/repo HOME=$work/home
umask 000
mkdir -p home homeB other
echo hello > other/x
cp "$(command -v "$program")" cutpoint && chmod 755 cutpoint || exit 77

./cutpoint init --encryption none > /dev/null 2>&1 || exit 77
# What is stored gets the group of the folder.
chgrp -R 65534 repo && chmod -R a+rwX repo || exit 77
mkfifo pipe
./cutpoint backup --stdin --stdin-filename x < pipe > A.out 2>&1 &
A=$!
exec 3> pipe
for _ in $(seq 1 500); do
  ticket=$(ls repo/tickets | head -1)
  [ -n "$ticket" ] && break
  sleep 0.02
done
[ -n "$ticket" ] || { echo "nothing has begun"; exit 77; }

unshare -m sh -c 'mount -t proc -o hidepid=2 proc /proc || exit 77
  exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "
    [ ! -e /proc/$1 ] || exit 77
    HOME=$2/homeB exec $2/cutpoint backup $2/other"' sh "$A" "$work" > B.out 2>&1
B=$?
echo "the other user's backup: exit $B"
tail -2 B.out
fell=0
[ ! -e "repo/commits/$ticket" ] || { echo "FELL: the live backup was taken for dead"; fell=1; }
echo hello >&3
exec 3>&-
wait $A
code=$?
echo "the backup: exit $code"
[ $code = 0 ] || { echo "FELL: exit $code"; tail -3 A.out; fell=1; }
[ $fell = 0 ] || exit 1
# A backup that did not run has taken nothing for dead.
[ $B = 0 ] || { echo "CONDITION DID NOT OCCUR: the other user's backup did not end with 0"; exit 77; }
