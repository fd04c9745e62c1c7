#!/usr/bin/env bash
# Installs packages into trees of files that contain nothing else, and has the program save and restore there.
# Needs root, and for each kind the tools that it names; for a package of another architecture, qemu-user-static and
# binfmt_misc, by which the kernel runs its programs. `packaging/README.md` has the commands.
set -euo pipefail

usage() {
    sed -n 's/^# usage: //p' "$0" >&2
    exit 2
}

work="$(mktemp -d)"
trap 'rm -rf --one-file-system "$work"' EXIT

# Runs the program of the tree $1 in it, without any variable of this machine, under the emulator $emulator if there is one.
emulator=""
inside() {
    local root="$1"
    shift
    env -i HOME=/trial CUTPOINT_REPO=/trial/repo CUTPOINT_PASSPHRASE="a passphrase of the trial" \
        unshare --root="$root" ${emulator:+"/trial/${emulator##*/}"} /usr/bin/cutpoint "$@"
}

# Saves, checks and restores files in the tree $1.
round_trip() {
    local root="$1" here
    here="$(cd "$(dirname "$0")/.." && pwd)"
    mkdir -p "$root/trial/data"
    git -C "$here" archive HEAD crates docs | tar -x -C "$root/trial/data"
    head -c 20000000 /dev/urandom > "$root/trial/data/random"
    truncate -s 100000000 "$root/trial/data/hole"
    ln -s random "$root/trial/data/link"
    ln "$root/trial/data/random" "$root/trial/data/random-again"
    chown 1234:2345 "$root/trial/data/hole"
    if [ -n "$emulator" ]; then
        cp "$emulator" "$root/trial/"
    fi
    inside "$root" version
    inside "$root" init
    inside "$root" backup /trial/data
    echo changed >> "$root/trial/data/random"
    inside "$root" backup /trial/data
    inside "$root" check --read-data
    inside "$root" restore latest:/trial/data --to /trial/restored
    diff -r --no-dereference "$root/trial/data" "$root/trial/restored"
    diff <(list "$root/trial/data") <(list "$root/trial/restored")
    rm -rf "$root/trial"
    echo "try: saved, checked and restored; all files are equal"
}

# Prints modes, owners, times, links and names of the files of the tree $1.
list() {
    (cd "$1" && find . -mindepth 1 -printf '%M %U:%G %T@ %n %l %P\n' | sed 's/^\(d.*\) [0-9]* *\( .*\)$/\1\2/' | sort)
}

# Prints the paths of all files below $1.
paths() {
    (cd "$1" && find . -xdev -not -path './var/*' | sort)
}

# usage: try.sh alone PROGRAM [EMULATOR]     the program as the only file; the emulator is one of qemu-user-static
try_alone() {
    emulator="${2:-}"
    install -D "$1" "$work/root/usr/bin/cutpoint"
    round_trip "$work/root"
}

# usage: try.sh deb PACKAGE SUITE_OR_FOLDER  a new Debian (debootstrap), or a copy of the folder of one
try_deb() {
    if [ -d "$2" ]; then
        cp -a "$2" "$work/root"
    else
        debootstrap --variant=minbase "$2" "$work/root" >/dev/null
    fi
    paths "$work/root" > "$work/before"
    cp "$1" "$work/root/package.deb"
    chroot "$work/root" dpkg --install /package.deb
    rm "$work/root/package.deb"
    paths "$work/root" | comm -13 "$work/before" -
    round_trip "$work/root"
    chroot "$work/root" dpkg --verify cutpoint
    chroot "$work/root" dpkg --purge cutpoint
    diff "$work/before" <(paths "$work/root")
    echo "try: installed and removed; no file is left"
}

# usage: try.sh rpm PACKAGE                  an empty tree with a database of RPM, for any architecture
try_rpm() {
    local rpm=(rpm --root "$work/root" --dbpath /var/lib/rpm)
    mkdir -p "$work/root/var/lib/rpm"
    rpm --checksig --nosignature "$1"
    "${rpm[@]}" --initdb
    paths "$work/root" > "$work/before"
    "${rpm[@]}" --install --ignorearch --nosignature "$1"
    "${rpm[@]}" --query --list --verbose cutpoint
    round_trip "$work/root"
    "${rpm[@]}" --verify cutpoint
    "${rpm[@]}" --erase cutpoint
    (cd "$work/root" && find . -xdev -type f -not -path './var/lib/rpm/*') > "$work/left"
    if [ -s "$work/left" ]; then
        cat "$work/left"
        exit 1
    fi
    echo "try: installed and removed; no file is left"
}

# usage: try.sh oci ARCHIVE ARCH [EMULATOR]  the image for amd64 or arm64 (skopeo, umoci)
try_oci() {
    emulator="${3:-}"
    skopeo inspect --override-arch "$2" "oci-archive:$1"
    skopeo copy --quiet --override-arch "$2" "oci-archive:$1" "oci:$work/image:trial"
    umoci unpack --image "$work/image:trial" "$work/bundle"
    (cd "$work/bundle/rootfs" && find . -mindepth 1 -printf '%M %u:%g %s %P\n' | sort -k 4)
    round_trip "$work/bundle/rootfs"
}

case "${1:-}" in
    alone | deb | rpm | oci) "try_$1" "${@:2}" ;;
    *) usage ;;
esac
