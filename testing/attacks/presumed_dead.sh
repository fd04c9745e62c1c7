#!/bin/bash
# A live, suspended prune must not be taken for dead by a clone of its machine.
# Verdict: exit 0 held, 1 fell, 77 the condition did not occur.
. "$(dirname "$0")/lib/suspended.bash"
scene 12
suspend prune -v
B backup other -q
other=$?
echo "B's backup: exit $other"
[ -e "$staged" ] || fall "B took the live prune for dead"
resume 0
judge
[ $fell = 0 ] || exit 1
# A machine that did not run has taken nothing for dead.
[ $other = 0 ] || { echo "CONDITION DID NOT OCCUR: B's backup did not end with 0"; exit 77; }
