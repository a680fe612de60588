"""What the checks stand on: no network, the stub model, processes and their ends."""
import ctypes
import fcntl
import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request

import llmstub

HERE = pathlib.Path(__file__).resolve().parent
READ = {dialect: read for _, dialect, read, _ in llmstub.DIALECTS}
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def leave_network():
    """Moves this process and all it starts into a network that has only loopback. False: not possible here."""
    if not sys.platform.startswith("linux"):
        return False
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET | (CLONE_NEWUSER if uid else 0)):
        return False
    if uid:
        pathlib.Path("/proc/self/setgroups").write_text("deny")
        pathlib.Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        pathlib.Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket() as any_socket:
        ask = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, ask))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
    return True


class Request:
    """One call of the model, as the stub logged it."""

    def __init__(self, line):
        self.kind, self.reply, self.tools = line["kind"], line.get("reply"), line.get("tools") or []
        self.conversation = READ[line["dialect"]](line["body"])
        self.turns = [turn for turn in self.conversation.turns if turn.role != "system"]

    @property
    def text(self):
        """All that the model was told, the system prompt aside."""
        return "\n".join(turn.text for turn in self.turns)

    @property
    def everything(self):
        return "\n".join(turn.text for turn in self.conversation.turns)

    @property
    def last(self):
        """What was said after the model's last answer."""
        said = []
        for turn in reversed(self.turns):
            if turn.role == "assistant":
                break
            said.append(turn.text)
        return "\n".join(reversed(said))


class Stub:
    """The stub model in a process of its own, and its log."""

    def __init__(self, folder):
        folder.mkdir()
        self.log = folder / "log.jsonl"
        self.process = subprocess.Popen([sys.executable, HERE / "llmstub.py", "--port", "0", "--log", self.log],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def set(self, **settings):
        request = urllib.request.Request(f"{self.url}/__stub/config", json.dumps(settings).encode())
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()

    def mark(self):
        """A place in the log, for `since`."""
        return self.log.stat().st_size

    def since(self, mark=0):
        with self.log.open("rb") as log:
            log.seek(mark)
            lines = log.read()
        whole = lines[:lines.rfind(b"\n") + 1].splitlines()
        return [Request(line) for line in map(json.loads, whole) if line.get("body") and line.get("kind") != "fault"]


def living_in(folder):
    """The processes that were started with something below this folder in their environment."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(folder) + b"/" in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until_none(what, seconds):
    """Asks until there is nothing, or the time is over; gives what is left."""
    wait_for(lambda: not what(), seconds)
    return what()


def first_json(stream, seconds):
    """The first JSON object that a process prints, or None when it ends or the time is over before."""
    os.set_blocking(stream.fileno(), False)
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        select.select([stream], [], [], 1)
        piece = os.read(stream.fileno(), 1 << 16) if select.select([stream], [], [], 0)[0] else None
        text += piece or b""
        try:
            return json.JSONDecoder().raw_decode(text.decode().lstrip())[0]
        except ValueError:
            if piece == b"":
                return None
    return None


def read_until(stream, mark, seconds):
    """What a process prints until this mark has come, it ends, or the time is over."""
    text, end = b"", time.monotonic() + seconds
    while mark not in text and time.monotonic() < end:
        if select.select([stream], [], [], 1)[0]:
            piece = os.read(stream.fileno(), 1 << 16)
            if not piece:
                break
            text += piece
    return text


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def wait_for(what, seconds, every=0.02):
    """Asks until the answer is true, or the time is over; gives the last answer."""
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(every)
    return found
