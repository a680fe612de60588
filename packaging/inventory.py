#!/usr/bin/env python3
"""Says what is inside the program: a bill of materials (CycloneDX 1.6), and the licences of everything that is not ours.

    inventory.py TARGET --sbom FILE --licences FILE

Works from Cargo.lock and the crates that are downloaded, without a network. What it writes depends on those alone and on
SOURCE_DATE_EPOCH: twice the same, and no path of this machine.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTICES = pathlib.Path(__file__).resolve().parent / "notices"
PROGRAM = "rethread-cli"
# How files with a licence, or with what it asks us to pass on, are called.
LICENCE_FILE = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
# Which licences may be in what we ship. One more is a decision, not an accident.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "ISC", "MIT", "MIT-0", "MPL-2.0", "Unicode-3.0", "Unlicense", "Zlib", "blessing",
}


def cargo(*args):
    return subprocess.run(["cargo", *args], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def crates_of(target, edges):
    """The crates that are used along `edges`, as (name, version)."""
    lines = cargo("tree", "--locked", "--offline", "-p", PROGRAM, "-e", edges, "--target", target,
                  "--prefix", "none", "--format", "{p}").splitlines()
    return {(name, version.removeprefix("v")) for name, version, *_ in (line.split() for line in lines if line)}


def expression(licence):
    """A licence as SPDX writes it: some crates still write a slash for `OR`."""
    return re.sub(r"\s*/\s*", " OR ", licence)


def refused(licence):
    """The licences of an expression that we may not ship, where there is no way around them."""
    parts = [part.strip(" ()") for part in re.split(r"\bAND\b", licence)]
    return [part for part in parts if not any(one.strip(" ()") in ALLOWED for one in re.split(r"\bOR\b", part))]


class Crate:
    """A crate of somebody else, as it was downloaded."""

    def __init__(self, package, checksum, is_inside):
        self.name, self.version = package["name"], package["version"]
        self.licence = expression(package["license"] or "")
        self.authors = package["authors"]
        self.repository = package["repository"]
        self.description = package["description"]
        self.checksum, self.is_inside = checksum, is_inside
        self.folder = pathlib.Path(package["manifest_path"]).parent
        self.purl = f"pkg:cargo/{self.name}@{self.version.replace('+', '%2B')}"

    def texts(self):
        """Its licences and notices, also those of the C code in it."""
        found = [path for path in self.folder.iterdir() if path.is_file() and LICENCE_FILE.match(path.name)]
        # One folder deep: where crates keep the C library that they carry.
        found += [path for path in self.folder.glob("*/*") if path.is_file() and re.fullmatch(r"LICENSE(\.\w+)?|COPYING", path.name)]
        return {path.relative_to(self.folder).as_posix(): path.read_text(errors="replace").strip() for path in sorted(found)}

    def component(self):
        one = {
            "type": "library", "bom-ref": self.purl, "name": self.name, "version": self.version,
            "scope": "required" if self.is_inside else "excluded",
            "licenses": [{"expression": self.licence}], "purl": self.purl,
        }
        if self.description:
            one["description"] = " ".join(self.description.split())
        if self.checksum:
            one["hashes"] = [{"alg": "SHA-256", "content": self.checksum}]
        if self.repository:
            one["externalReferences"] = [{"type": "vcs", "url": self.repository}]
        return one


def others(target, crates):
    """What is in the program and is not a crate: name, version, licence, address, and in which crate it is."""
    folders = {crate.name: crate for crate in crates}
    sqlite = folders["libsqlite3-sys"].folder.joinpath("sqlite3/sqlite3.h").read_text()
    rustc = subprocess.run(["rustc", "-vV"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [
        ("sqlite", re.search(r'#define SQLITE_VERSION\s+"([^"]+)"', sqlite)[1], "blessing", "https://sqlite.org", "libsqlite3-sys"),
        ("zstd", folders["zstd-sys"].version.split("+zstd.")[1], "BSD-3-Clause", "https://github.com/facebook/zstd", "zstd-sys"),
        ("o200k_base", "1", "MIT", "https://github.com/openai/tiktoken", None),
        ("wordllama", "0.4.0", "MIT", "https://github.com/dleemiller/WordLlama", None),
        ("rust-std", re.search(r"release: (\S+)", rustc)[1], "MIT OR Apache-2.0", "https://github.com/rust-lang/rust", None),
    ]
    if target.endswith("-musl"):
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        libc = pathlib.Path(sysroot, "lib/rustlib", target, "lib/self-contained/libc.a")
        # Where nothing is built for the target, the library is not there.
        version = re.search(rb"\0(1\.\d+\.\d+)\0", libc.read_bytes()) if libc.exists() else None
        found.append(("musl", version[1].decode() if version else "1.2", "MIT", "https://musl.libc.org", None))
    return found


def collect(target):
    metadata = json.loads(cargo("metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", target))
    lock = tomllib.loads(ROOT.joinpath("Cargo.lock").read_text())
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    inside = crates_of(target, "normal,no-proc-macro")
    needed = crates_of(target, "normal,build") | inside
    packages = {(one["name"], one["version"]): one for one in metadata["packages"]}
    crates = [Crate(packages[key], checksums[key], key in inside) for key in sorted(needed) if packages[key]["source"]]
    ours = {packages[key]["id"] for key in inside if not packages[key]["source"]}
    return metadata, crates, ours


def sbom(target, metadata, crates, ours, parts):
    version = next(one["version"] for one in metadata["packages"] if one["name"] == PROGRAM)
    root = f"pkg:generic/rethread@{version}"
    ids = {one["id"]: f"pkg:cargo/{one['name']}@{one['version'].replace('+', '%2B')}" for one in metadata["packages"]}
    known = {crate.purl for crate in crates}
    edges = {purl: set() for purl in known | {root}}
    for node in metadata["resolve"]["nodes"]:
        # Our own crates are one thing: the program.
        source = root if node["id"] in ours else ids[node["id"]]
        used = (ids[one["pkg"]] for one in node["deps"] if any(kind["kind"] != "dev" for kind in one["dep_kinds"]))
        if source in edges:
            edges[source].update(known.intersection(used))
    components = [crate.component() for crate in crates]
    for name, number, licence, address, carrier in parts:
        purl = f"pkg:generic/{name}@{number}"
        components.append({
            "type": "data" if name in ("o200k_base", "wordllama") else "library", "bom-ref": purl, "name": name, "version": number, "scope": "required",
            "licenses": [{"expression": licence}], "purl": purl, "externalReferences": [{"type": "website", "url": address}],
        })
        edges[purl] = set()
        edges[next((crate.purl for crate in crates if crate.name == carrier), root)].add(purl)
    time = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.UTC)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": root, "name": "rethread", "version": version, "purl": root,
                "licenses": [{"expression": "Apache-2.0"}], "properties": [{"name": "rethread:target", "value": target}],
            },
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": sorted(used)} for purl, used in sorted(edges.items())],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{serial}"}


def licences(target, crates, parts):
    """Each text once, below the names of all that it is for."""
    apache = ROOT.joinpath("LICENSE").read_text().strip()
    shared = {}
    for crate in (crate for crate in crates if crate.is_inside):
        texts = crate.texts()
        if not texts and "Apache-2.0" in crate.licence:
            texts = {"LICENSE": apache}
        if not texts:
            sys.exit(f"{crate.name} {crate.version} has no file with its licence ({crate.licence}): put the text into packaging/notices")
        for text in texts.values():
            # The same words with other line breaks are the same text.
            shared.setdefault(" ".join(text.split()), (text, []))[1].append(f"{crate.name} {crate.version} ({crate.licence})")
    for name, number, licence, address, carrier in parts:
        if carrier is None or name == "sqlite":
            text = NOTICES.joinpath(f"{name}.txt").read_text().strip()
            shared.setdefault(" ".join(text.split()), (text, []))[1].append(f"{name} {number} ({licence}), {address}")
    rule = "=" * 100
    pages = [
        f"Rethread is licensed under Apache-2.0. The program for {target} contains the work of others,\n"
        "under the licences below. Where several are offered, any of them may be chosen. The source of each crate, as it was\n"
        "used, is published under its name and version."
    ]
    for text, names in sorted(shared.values(), key=lambda item: (-len(item[1]), item[1])):
        names = list(dict.fromkeys(names))
        pages.append(rule + "\n" + "\n".join(names) + "\n" + "-" * 100 + "\n\n" + text)
    return "\n\n".join(pages) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--sbom", type=pathlib.Path, required=True)
    parser.add_argument("--licences", type=pathlib.Path, required=True)
    args = parser.parse_args()
    metadata, crates, ours = collect(args.target)
    parts = others(args.target, crates)
    for crate in crates:
        if crate.is_inside and (bad := refused(crate.licence) or not crate.licence):
            sys.exit(f"{crate.name} {crate.version} is licensed under {bad or 'nothing that it names'}, which we do not ship")
    args.sbom.write_text(json.dumps(sbom(args.target, metadata, crates, ours, parts), indent=1, ensure_ascii=False) + "\n")
    args.licences.write_text(licences(args.target, crates, parts))
    inside = sum(crate.is_inside for crate in crates)
    print(f"{args.target}: {inside} crates and {len(parts)} other parts in the program, {len(crates) - inside} crates only to build it")


if __name__ == "__main__":
    main()
