# A suspended command of A is ended by another client, goes on, and condemns the sources of what it did not store.
# Scripts source this file and call `attack` with the command.
. "$(dirname "$0")/lib/suspended.bash"

# Suspends the command $1 with its further options, lets B end it, resumes it, and ends the script with the verdict.
attack() {
  scene 24
  suspend "$1" -v "${@:2}"
  # By the storage's own stamps nothing was heard of A for three days.
  touch -d '3 days ago' repo/tickets/* "$staged"
  B backup other -q
  echo "B's backup: exit $?"
  local ended=yes
  [ -e "$staged" ] && ended=no
  resume 0 15
  judge
  [ $fell = 0 ] && [ $ended = no ] && { echo "B did not end the $1 of A"; exit 77; }
  exit $fell
}
