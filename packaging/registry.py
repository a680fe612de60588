#!/usr/bin/env python3
"""Checks an entry for the registry of the Agent Client Protocol, offline.

    packaging/registry.py FOLDER VERSION

The folder has the name of the entry, and holds agent.json and icon.svg. The rules are those of the registry (its schema and its
guide for contributors, August 2026); whether the archives can be downloaded, and whether the agent names a way to log in, the
registry finds out by itself.
"""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

REQUIRED = {"id", "name", "version", "description", "distribution"}
OPTIONAL = {"repository", "website", "authors", "license", "license_url"}
PLATFORMS = {f"{system}-{machine}" for system in ("darwin", "linux", "windows") for machine in ("aarch64", "x86_64")}
ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2")
COLOURS = {"currentColor", "none", "inherit"}


def entry_problems(entry, folder, version):
    fields = set(entry)
    yield from (f"{name} is missing" for name in sorted(REQUIRED - fields))
    yield from (f"{name} is unknown" for name in sorted(fields - REQUIRED - OPTIONAL))
    for name in sorted(fields & (REQUIRED | OPTIONAL) - {"distribution", "authors"}):
        if not isinstance(entry[name], str) or not entry[name].strip():
            yield f"{name} is not a text, or empty"
    if not re.fullmatch(r"[a-z][a-z0-9-]*", str(entry.get("id"))) or entry["id"] != folder:
        yield f"id is not the name of the folder, {folder}"
    if entry.get("version") != version:
        yield f"version is {entry.get('version')}, and Cargo.toml has {version}"
    for name in ("repository", "website", "license_url"):
        if name in entry and not str(entry[name]).startswith("https://"):
            yield f"{name} is no address"
    if set(entry.get("distribution") or {}) != {"binary"} or not entry["distribution"]["binary"]:
        yield "distribution is not binary"
        return
    for platform, target in entry["distribution"]["binary"].items():
        yield from (f"{platform}: {problem}" for problem in target_problems(platform, target, version))


def target_problems(platform, target, version):
    if platform not in PLATFORMS:
        yield "the registry knows no such platform"
    if unknown := set(target) - {"archive", "sha256", "cmd", "args", "env"}:
        yield f"{', '.join(sorted(unknown))} is unknown"
    archive = str(target.get("archive"))
    if not archive.startswith("https://") or not archive.endswith(ARCHIVES) or "/latest/" in archive:
        yield f"archive is not the address of an archive: {archive}"
    if f"/v{version}/" not in archive:
        yield f"archive is not of version {version}: {archive}"
    if not re.fullmatch(r"[0-9a-f]{64}", str(target.get("sha256"))):
        yield "sha256 is no sum"
    name = archive.rpartition("/")[2].removesuffix(".tar.gz")
    if target.get("cmd") != f"./{name}/bin/rethread":
        yield f"cmd is not the program in the archive: {target.get('cmd')}"
    if target.get("args", [])[:1] != ["acp"] or len(target["args"]) != 2:
        yield "args are not those that start an agent"


def icon_problems(text):
    if "<!--" in text:
        yield "it has comments"
    try:
        root = xml.fromstring(text)
    except xml.ParseError as error:
        yield f"it is no XML: {error}"
        return
    if root.tag.rpartition("}")[2] != "svg":
        yield "it is no SVG"
    if (root.get("width"), root.get("height"), root.get("viewBox")) != ("16", "16", "0 0 16 16"):
        yield "it is not 16 by 16"
    used = [value for element in root.iter() for name in ("fill", "stroke") if (value := element.get(name)) is not None]
    yield from (f"it has a colour of its own: {colour}" for colour in used if colour not in COLOURS)
    if "currentColor" not in used or any(element.get("style") for element in root.iter()):
        yield "it does not take the colour of the text"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    try:
        entry = json.loads((folder / "agent.json").read_text())
        problems = [f"agent.json: {problem}" for problem in entry_problems(entry, folder.name, version)]
    except (OSError, ValueError) as error:
        problems = [f"agent.json: {error}"]
    try:
        problems += [f"icon.svg: {problem}" for problem in icon_problems((folder / "icon.svg").read_text())]
    except OSError as error:
        problems.append(f"icon.svg: {error}")
    sys.exit("\n".join(problems) or 0)


if __name__ == "__main__":
    main()
