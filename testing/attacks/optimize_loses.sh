#!/bin/bash
# A suspended optimize is ended by another client, goes on, and condemns the sources of what it did not store.
# Verdict: exit 0 held, 1 fell, 77 the condition did not occur.
. "$(dirname "$0")/lib/condemned.bash"
attack optimize --all
