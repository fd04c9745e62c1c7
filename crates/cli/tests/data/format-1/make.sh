#!/bin/sh
# Made the repositories of this folder, once. See README.md: they are never made again.
# make.sh CUTPOINT FOLDER, as root: in namespaces of its own, so that what is recorded of the machine is
# made up. FOLDER must exist and be empty.
set -eu
if [ "${3-}" != inside ]; then
    exec unshare -u -m -p -f --mount-proc sh "$(realpath "$0")" "$(realpath "$1")" "$(realpath "$2")" inside
fi
program=$1 out=$2
hostname fixture
mount -t tmpfs none /mnt
mkdir -p /mnt/bin /mnt/home /mnt/out
mount --bind "$out" /mnt/out
echo 11111111-1111-4111-8111-111111111111 >/mnt/boot_id
mount --bind /mnt/boot_id /proc/sys/kernel/random/boot_id
cp "$program" /mnt/bin/cutpoint
cd /mnt/out
printf 'a passphrase of 2026' >passphrase
chmod 600 passphrase

# What is backed up: VERSION says how far its history has come. The listing is made of the sources, not
# of what cutpoint says of them.
source_of() {
    python3 - "$1" <<'PYTHON'
import os, random, shutil, sys
version = int(sys.argv[1])
root = b"/mnt/data"
shutil.rmtree(root, ignore_errors=True)
os.makedirs(root + b"/sub/deep")
os.makedirs(root + b"/empty folder")
def put(name, data):
    with open(root + b"/" + name, "wb") as out:
        out.write(data)
def noise(seed, count):
    return random.Random(seed).randbytes(count)
words = ["cut", "point", "chunk", "region", "index", "view", "recipe", "tree"]
def text(seed, count):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(words) for _ in range(count)).encode()
put(b"empty", b"")
put(b"small", b"a small file of version %d\n" % version)
put(b"text", text(1, 4000) + text(1 + version, 400))
put(b"noise", noise(2, 12000) + noise(100 + version, 3000) + noise(3, 9000))
put(b"sub/copy of noise", noise(2, 12000))
put(b"sub/deep/only in %d" % version, noise(200 + version, 700))
put(b"not \xff UTF-8", b"an odd name\n")
put(b"line\nbreak", b"an odder name\n")
put(b"zeros", bytes(50000))
with open(root + b"/sparse", "wb") as out:
    out.write(b"begins")
    out.seek(3000000)
    out.write(b"in the middle")
    out.truncate(5000000)
for index in range(40):
    put(b"sub/deep/%03d" % index, b"file %d\n" % index)
os.link(root + b"/small", root + b"/sub/another name of small")
os.symlink(b"../small", root + b"/sub/link")
os.symlink(b"nowhere \xfe", root + b"/dangling")
os.mkfifo(root + b"/pipe")
os.chmod(root + b"/text", 0o4751)
os.chmod(root + b"/sub/deep", 0o2750)
for folder, folders, files in os.walk(root, topdown=False):
    for name in files + folders:
        path = os.path.join(folder, name)
        at = 1_600_000_000 * 10**9 + version * 10**9 + len(path) * 1_000_001
        os.utime(path, ns=(at, at), follow_symlinks=False)
PYTHON
}

# One line an entry: mode, links, size, modification time, MD5 or target, path.
listing() {
    python3 - <<'PYTHON'
import hashlib, os, stat, urllib.parse
root = b"/mnt/data"
def quoted(data):
    return urllib.parse.quote(data, safe="/")
lines = []
for folder, folders, files in os.walk(root):
    for name in folders + files:
        path = os.path.join(folder, name)
        at = os.lstat(path)
        content = "-"
        size = links = 0
        if stat.S_ISREG(at.st_mode):
            content = hashlib.md5(open(path, "rb").read()).hexdigest()
        elif stat.S_ISLNK(at.st_mode):
            content = quoted(os.readlink(path))
        if not stat.S_ISDIR(at.st_mode):
            size, links = at.st_size, at.st_nlink
        shown = quoted(path[len(root) + 1:])
        mode = 0 if stat.S_ISLNK(at.st_mode) else at.st_mode
        lines.append((path, f"{mode:o} {links} {size} {at.st_mtime_ns} {content} {shown}"))
for _, line in sorted(lines):
    print(line)
PYTHON
}

cutpoint() {
    env -i HOME=/mnt/home USER=tester CUTPOINT_REPO="$repo" /mnt/bin/cutpoint "$@"
}

# save VERSION [OPTION...]: prints the id of the snapshot.
save() {
    version=$1
    shift
    source_of "$version"
    id=$(cutpoint backup /mnt/data --json "$@" $unlock | python3 -c '
import json, sys
print([json.loads(line) for line in sys.stdin][-1]["snapshot"])')
    mkdir -p "$repo.expected"
    listing >"$repo.expected/$id"
    echo "$id"
}

for repo in encrypted open; do
    if [ $repo = open ]; then
        unlock=
        make="--encryption none"
    else
        unlock="--key-file key"
        make="$unlock --recovery-kit recovery-kit"
    fi
    cutpoint init --cut seqcdc:avg=2k --region-size 16k --container-size 4M $make
    first=$(save 1)
    second=$(save 2 --tag held --description "held, and of before the prune")
    third=$(save 3)
    cutpoint hold "$second" $unlock
    cutpoint tag "$third" --add noted $unlock || cutpoint tag --help
    cutpoint forget "$first" $unlock
    cutpoint prune --unused-max 0% --exclusive $unlock
    rm "$repo.expected/$first"
    if [ $repo = encrypted ]; then
        cutpoint key add --new-passphrase-file passphrase --label words $unlock
        rm recovery-kit
        cutpoint key rotate --keep-key-file key --keep-passphrase-file passphrase \
            --new-recovery-kit recovery-kit $unlock || cutpoint key rotate --help
    fi
    save 4 --tag kept
    forgotten=$(save 5)
    cutpoint forget "$forgotten" $unlock
    cutpoint prune --dry-run $unlock
    cutpoint check --read-data $unlock
    cutpoint snapshots $unlock
    cutpoint snapshots --forgotten $unlock
done
