#!/usr/bin/env python3
"""The linker of a release. Starting a program costs mostly the pages of it that are touched, 64 KB at a time: what short commands
run is put side by side. `packaging/startup.names` has the names of that, without what differs from build to build;
`packaging/startup` makes it anew.

Called by rustc (`-Clinker`), which has `rust-lld` in the path."""
import collections
import os
import re
import subprocess
import sys
import tempfile

# So many functions may have one name; of those with more, most are not run.
MOST_ALIKE = 8


def plain(name):
    """The name of a function without the hashes of its crate and its types."""
    return re.sub(r"Cs[0-9A-Za-z]{8,14}_", "Cs_", re.sub(r"17h[0-9a-f]{16}E", "E", name))


def symbols(file):
    told = subprocess.run(["nm", "--defined-only", file], capture_output=True, text=True, errors="replace")
    found = (line.split() for line in told.stdout.splitlines())
    return [parts[2] for parts in found if len(parts) == 3 and parts[1] in "tTwW"]


def order(files, names):
    """The functions of these files that have these names, in the order of the names."""
    alike = collections.defaultdict(dict)
    for file in files:
        for symbol in symbols(file):
            alike[plain(symbol)][symbol] = None
    return [alike[name] for name in names if 0 < len(alike.get(name, ())) <= MOST_ALIKE]


def names_of(program, profiles):
    """What callgrind saw of a program, as plain names."""
    called = set()
    for profile in profiles:
        with open(profile, encoding="utf-8") as file:
            # A name is written out where it stands first, as that of a function or of one that is called.
            lines = (re.match(r"c?fn=\(\d+\) (.+?)('\d+)?$", line.rstrip("\n")) for line in file)
            called.update(line.group(1) for line in lines if line)
    return sorted({plain(symbol) for symbol in symbols(program) if symbol in called})


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--names"]:
        print("\n".join(names_of(arguments[1], arguments[2:])))
        return
    if arguments[:1] != ["-flavor"]:
        arguments = ["-flavor", "gnu", *arguments]
    output = arguments[arguments.index("-o") + 1] if "-o" in arguments else ""
    if os.path.basename(output).startswith("rethread-"):
        with open(os.path.join(os.path.dirname(__file__), "startup.names"), encoding="utf-8") as file:
            names = file.read().split()
        files = [one for one in arguments if one.endswith((".o", ".rlib", ".a")) and os.path.isfile(one)]
        found = order(files, names)
        if len(found) * 2 < len(names):
            print(f"warning: {len(found)} of {len(names)} names are known: run packaging/startup", file=sys.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".order", delete=False) as file:
            file.writelines(symbol + "\n" for symbols in found for symbol in symbols)
        arguments += [f"--symbol-ordering-file={file.name}", "--no-warn-symbol-ordering"]
        try:
            sys.exit(subprocess.run(["rust-lld", *arguments], check=False).returncode)
        finally:
            os.unlink(file.name)
    os.execvp("rust-lld", ["rust-lld", *arguments])


if __name__ == "__main__":
    main()
