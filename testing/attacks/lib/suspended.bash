# A prune or optimize of machine A, suspended while it has a container staged that has no name yet.
# Machine B has the host name and the machine id of A, and another boot id, as cloned machines on one
# network folder have. Scripts source this file, call `scene`, then `suspend`, `resume` and `judge`.
set -u
work=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$work"' EXIT
cd "$work" || exit 77
export CUTPOINT_REPO=$work/repo
program=${CUTPOINT:-cutpoint}
fell=0

A() { XDG_STATE_HOME=$work/stateA XDG_CACHE_HOME=$work/cacheA "$program" "$@"; }
B() {
  unshare -m sh -c 'mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id || exit 77
    export XDG_STATE_HOME=$1/stateB XDG_CACHE_HOME=$1/cacheB; shift; exec "$@"' sh "$work" "$program" "$@"
}
fall() { echo "FELL: $*"; fell=1; }

# A repository of $1 snapshots, of which all but the newest are forgotten; half of each container is needed.
scene() {
  mkdir -p src other
  echo 11111111-2222-3333-4444-555555555555 > boot_id
  echo hello > other/x
  A init --encryption none --container-size 4M --region-size 128k > /dev/null 2>&1 || exit 77
  for i in $(seq 1 "$1"); do
    head -c 2000000 /dev/urandom > src/keep$i
    head -c 1500000 /dev/urandom > src/drop$i
    A backup src -q || exit 77
    rm src/drop$i
  done
  A backup src -q || exit 77
  (cd src && sha256sum keep* > ../sums)
  A snapshots --json | grep -o '"id":"[0-9a-f]*"' | cut -d'"' -f4 > ids
  A forget $(head -n -1 ids) -q || exit 77
}

# Starts the command of A and stops it while a container is staged: `staged` names the file.
suspend() {
  # Not the function: a signal must reach the program, not a shell that waits for it.
  XDG_STATE_HOME=$work/stateA XDG_CACHE_HOME=$work/cacheA "$program" "$@" > run.out 2>&1 &
  process=$!
  staged=
  for _ in $(seq 1 5000); do
    staged=$(find repo/data repo/meta -name '*#*' 2> /dev/null | head -1)
    [ -n "$staged" ] && { kill -STOP $process; break; }
    kill -0 $process 2> /dev/null || break
    sleep 0.002
  done
  [ -n "$staged" ] && [ -e "$staged" ] && return
  kill -CONT $process 2> /dev/null
  wait
  echo "nothing was staged when the command stopped"
  exit 77
}

# Lets the command go on. It must end with one of the given exit codes.
resume() {
  kill -CONT $process
  wait $process
  local code=$?
  echo "the suspended command: exit $code"
  tail -3 run.out
  case " $* " in *" $code "*) ;; *) fall "exit $code instead of: $*" ;; esac
}

# The newest snapshot has everything, after one more prune.
judge() {
  A prune -q
  echo "the next prune: exit $?"
  A check --read-data --no-record > check.out 2>&1 || { fall "check ends with $?"; tail -4 check.out; }
  A restore "$(tail -1 ids):$work/src" --to back -q || fall "restore ends with $?"
  (cd back && sha256sum -c --quiet ../sums) || fall "files are missing or differ"
}
