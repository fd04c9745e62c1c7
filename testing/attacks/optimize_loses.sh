#!/bin/bash
# A suspended optimize is ended by another client, goes on, and condemns the sources of what it did not store.
# Verdict: exit 0 held, 1 fell, 77 the condition did not occur.
. "$(dirname "$0")/lib/suspended.bash"
scene 24
suspend optimize --settle 0s -v --all
# By the storage's own stamps nothing was heard of A for three days.
touch -d '3 days ago' repo/tickets/* "$staged"
B backup other -q
echo "B's backup: exit $?"
[ -e "$staged" ] && ended=no || ended=yes
resume 0 15
judge
[ $fell = 0 ] && [ $ended = no ] && { echo "B did not end the optimize of A"; exit 77; }
exit $fell
