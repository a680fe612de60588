#!/usr/bin/env python3
"""What passes between a client and an agent, line by line.

    wire.py tee FILE -- COMMAND …    starts the agent, passes everything on, and writes every line to FILE
    wire.py play FILE PROBLEMS       is that agent: says what FILE says, and writes to PROBLEMS what it is asked otherwise

A line of FILE is one of the wire behind `>` (to the agent) or `<` (from it), in the order in which they passed.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

ID = re.compile(r'"id"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[-0-9.eE+]+|null)')


def read(file):
    """The lines of a recording: the direction, and the text."""
    return [(line[0], line[1:]) for line in pathlib.Path(file).read_text().splitlines()]


def tee(file, command):
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, lock = open(file, "a", buffering=1), threading.Lock()

    def pass_on(source, target, mark):
        for line in source:
            with lock:      # noted in the order in which it is passed on
                out.write(mark + line.decode().rstrip("\n") + "\n")
                try:
                    target.write(line)
                    target.flush()
                except BrokenPipeError:
                    return
        if mark == ">":
            target.close()

    back = threading.Thread(target=pass_on, args=(agent.stdout, sys.stdout.buffer, "<"))
    back.start()
    threading.Thread(target=pass_on, args=(sys.stdin.buffer, agent.stdin, ">"), daemon=True).start()
    back.join()
    os._exit(agent.wait())


def play(file, problems):
    ids, complaints = {}, open(problems, "a", buffering=1)
    for mark, text in read(file):
        known = json.loads(text)
        if mark == ">":
            line = sys.stdin.readline()
            if not line:
                return
            got = json.loads(line)
            if "method" in known and "id" in known:
                ids[json.dumps(known["id"])] = got.get("id")
                known, got = ({key: value for key, value in one.items() if key != "id"} for one in (known, got))
            if known != got:
                complaints.write(f"the agent got {json.dumps(got)[:400]} and not {json.dumps(known)[:400]}\n")
        else:
            if "method" not in known:
                text = ID.sub(lambda _: f'"id":{json.dumps(ids.get(json.dumps(known["id"])))}', text, count=1)
            print(text, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[1] == "tee":
        tee(sys.argv[2], sys.argv[4:])
    else:
        play(sys.argv[2], sys.argv[3])
