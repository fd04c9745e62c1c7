#!/usr/bin/env python3
"""Measures backups and restores over SFTP with a delay against `sftp -R 64 put` and `get`.

    research/scale/sftp.py PROGRAM FOLDER [SOURCE...] [--delay-ms 15] [--mib 256] [--runs 3] [--kinds one,2m,100k]

PROGRAM is a release build of cutpoint, FOLDER an empty folder for the server's files, the sources and the restored
files, best in memory. Needs OpenSSH with its server. The connection of ssh is a pipe to an sshd of its own, which
delays each direction and limits no rate. A run measures for each kind of source, in turn: put of one file of random
bytes, a backup into a new repository, a backup without changes, get, a restore, and a restore of one small file; for
put and get also those of a small file. SOURCE is a further folder, of the same size as the others for the ratios to
mean anything. Prints the seconds of each, and at the end the medians of the ratios to put and get: of whole commands,
and without the times of those that move nothing.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

HOST = "testserver"
FILE_LENS = {"one": 1 << 40, "2m": 2 << 20, "100k": 100 << 10}
RANDOM = "random"
SMALL = "small"


def relay(source, target, delay_s):
    """Passes bytes from one descriptor to another, each `delay_s` after it arrived."""
    pieces, arrived = collections.deque(), threading.Semaphore(0)

    def read():
        piece = None
        while piece != b"":
            try:
                piece = os.read(source, 1 << 18)
            except OSError:
                piece = b""
            pieces.append((time.monotonic() + delay_s, piece))
            arrived.release()

    threading.Thread(target=read, daemon=True).start()
    while True:
        arrived.acquire()
        due, piece = pieces.popleft()
        time.sleep(max(0, due - time.monotonic()))
        if not piece:
            os.close(target)
            return
        while piece:
            piece = piece[os.write(target, piece) :]


def run_relay(delay_ms, command):
    """The command that ssh connects by: starts a server and delays what it receives and sends."""
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    delay_s = float(delay_ms) / 1000
    threading.Thread(target=relay, args=(0, server.stdin.fileno(), delay_s), daemon=True).start()
    with contextlib.suppress(OSError):
        relay(server.stdout.fileno(), 1, delay_s)
    server.kill()
    os._exit(0)


def configure(folder, delay_ms):
    """Makes keys and configurations of a server, and returns the command of the client."""
    folder.mkdir()
    sshd = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    servers = ["/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server", "/usr/lib/ssh/sftp-server"]
    sftp_server = next((path for path in servers if os.path.exists(path)), None)
    if not sshd or not sftp_server:
        sys.exit("no sshd or sftp-server (Debian: openssh-server)")
    # A server that root runs needs this folder.
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    for key in ("host_key", "client_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    shutil.copy(folder / "client_key.pub", folder / "authorized_keys")
    (folder / "known_hosts").write_text(f"{HOST} {(folder / 'host_key.pub').read_text()}")
    (folder / "sshd_config").write_text(
        f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
        f"PermitRootLogin yes\nPasswordAuthentication no\nPidFile none\nSubsystem sftp {sftp_server}\n"
    )
    script = os.path.realpath(__file__)
    proxy = f"{sys.executable} -S {script} relay {delay_ms} {sshd} -i -f {folder}/sshd_config -E {folder}/log"
    (folder / "client").write_text(
        f"Host {HOST}\nProxyCommand {proxy}\nHostKeyAlias {HOST}\nIdentityFile {folder}/client_key\n"
        f"IdentitiesOnly yes\nUserKnownHostsFile {folder}/known_hosts\nGlobalKnownHostsFile /dev/null\n"
        "StrictHostKeyChecking yes\nBatchMode yes\n"
    )
    return folder / "client"


def make_source(folder, len_total, file_len):
    """Makes files of random bytes, 100 in a folder."""
    count = 0
    with open("/dev/urandom", "rb") as random:
        while len_total > 0:
            path = folder / f"{count // 100:03}" / f"{count:06}"
            path.parent.mkdir(parents=True, exist_ok=True)
            left = min(file_len, len_total)
            len_total -= left
            with open(path, "wb") as file:
                while left > 0:
                    left -= file.write(random.read(min(left, 1 << 20)))
            count += 1
    (folder / SMALL).write_bytes(b"small\n")


def elapsed(command, **options):
    begin = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr}")
    return seconds


class Bench:
    def __init__(self, args):
        self.folder = args.folder.resolve()
        self.server = self.folder / "server"
        self.server.mkdir(parents=True)
        self.config = configure(self.folder / "ssh", args.delay_ms)
        names = {"XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
        self.environment = os.environ | {name: str(self.folder / place) for name, place in names.items()}
        self.environment["CUTPOINT_PASSPHRASE"] = "secret"
        self.program = [os.path.realpath(args.program), "--ssh-command", f"ssh -F {self.config}"]
        self.times = collections.defaultdict(list)

    def cutpoint(self, repository, *words):
        location = f"sftp://{HOST}/{self.server / repository}"
        return elapsed([*self.program, "--repo", location, *map(str, words)], env=self.environment)

    def sftp(self, line):
        batch = self.folder / "batch"
        batch.write_text(line + "\n")
        return elapsed(["sftp", "-q", "-F", self.config, "-R", "64", "-b", batch, HOST])

    def note(self, name, seconds):
        self.times[name].append(seconds)
        print(f"{name:24} {seconds:6.2f} s", flush=True)

    def put(self, label, path):
        self.note(label, self.sftp(f"put {path} {self.server}/put"))

    def get(self, label):
        self.note(label, self.sftp(f"get {self.server}/put {self.folder}/got"))
        os.remove(self.folder / "got")

    def measure(self, kind, source, pristine):
        repository, restored = self.server / "repository", self.folder / "restored"
        shutil.copytree(pristine, repository)
        random = self.folder / RANDOM / "one"
        self.put(f"{kind}: put", random / "000/000000")
        self.note(f"{kind}: backup", self.cutpoint("repository", "backup", "-q", source))
        self.note(f"{kind}: no changes", self.cutpoint("repository", "backup", "-q", source))
        self.get(f"{kind}: get")
        self.note(f"{kind}: restore", self.cutpoint("repository", "restore", "-q", "latest", "--to", restored))
        shutil.rmtree(restored)
        one = ("restore", "-q", "latest", "--to", restored, "--include", f"{source}/{SMALL}")
        self.note(f"{kind}: restore small", self.cutpoint("repository", *one))
        self.put(f"{kind}: put small", random / SMALL)
        self.get(f"{kind}: get small")
        for folder in (restored, repository):
            shutil.rmtree(folder)
        # The next repository has the same identity.
        for place in ("cache", "state"):
            shutil.rmtree(self.folder / place, ignore_errors=True)

    def print_ratios(self, kinds):
        print("\nmedians")
        for name, times in self.times.items():
            print(f"{name:24} {statistics.median(times):6.2f} s")
        for kind in kinds:
            for verb, peer, base in (("backup", "put", "no changes"), ("restore", "get", "restore small")):
                names = (peer, f"{peer} small", verb, base)
                runs = list(zip(*(self.times[f"{kind}: {name}"] for name in names), strict=True))
                whole = statistics.median(peer / ours for peer, _, ours, _ in runs)
                net = statistics.median((peer - small) / (ours - base) for peer, small, ours, base in runs)
                print(f"{kind}: {verb} at {whole:.2f} of the rate of {peer}, {net:.2f} without fixed times")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("sources", nargs="*", type=pathlib.Path)
    parser.add_argument("--delay-ms", type=float, default=15)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kinds", default=",".join(FILE_LENS))
    args = parser.parse_args()
    bench = Bench(args)
    kinds = args.kinds.split(",")
    for kind in {*kinds, "one"}:
        make_source(bench.folder / RANDOM / kind, args.mib << 20, FILE_LENS[kind])
    pristine = bench.folder / "pristine"
    bench.cutpoint("repository", "init", "--recovery-kit", bench.folder / "kit")
    (bench.server / "repository").rename(pristine)
    for _ in range(args.runs):
        for kind in kinds:
            bench.measure(kind, bench.folder / RANDOM / kind, pristine)
        for source in args.sources:
            bench.measure(source.name, source.resolve(), pristine)
    bench.print_ratios([*kinds, *(source.name for source in args.sources)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["relay"]:
        run_relay(sys.argv[2], sys.argv[3:])
    main()
