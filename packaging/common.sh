# shellcheck shell=bash disable=SC2034 # Variables are used by those who read this file in.
# What ./release and the scripts beside it share: names, versions, and how a template is filled in.

# Where the files of a release are downloaded from: each is at $RETHREAD_RELEASES_URL/v$VERSION/NAME. Goes into install.sh and the formula.
RETHREAD_RELEASES_URL=${RETHREAD_RELEASES_URL:-}
# The project's page, for the formula.
RETHREAD_HOMEPAGE=${RETHREAD_HOMEPAGE:-}
# Who answers for the Debian package: a name and an address. This one reaches nobody.
RETHREAD_MAINTAINER=${RETHREAD_MAINTAINER:-Rethread <nobody@rethread.invalid>}

# Rust's name of a target, ours of its architecture, and Debian's.
TARGETS=(x86_64-unknown-linux-musl:x86_64:amd64 aarch64-unknown-linux-musl:aarch64:arm64)
OWN_TARGET=x86_64-unknown-linux-musl
# The C compiler for all targets (SQLite, zstd and ring are in C).
ZIG_VERSION=0.17.0

VERSION=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
DIST=$TARGET_DIR/dist
WORK=$TARGET_DIR/dist.work
RUST_SYSROOT=$(rustc --print sysroot 2>/dev/null || true)
# All files have the time of the commit, so that the same source gives the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

zig() { # prints how to call it
    local folder=$TARGET_DIR/zig-$ZIG_VERSION
    if [ ! -x "$folder/bin/python" ] || ! "$folder/bin/python" -c 'import ziglang' 2>/dev/null; then
        echo "Installing zig $ZIG_VERSION …" >&2
        python3 -m venv "$folder" >&2
        "$folder/bin/pip" install --quiet "ziglang==$ZIG_VERSION" >&2
    fi
    "$folder/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__) + "/zig")'
}

# Lets cc-rs compile C for a target. Zig has its own names of targets: the ones that cc-rs gives are left out.
cross_compiler() { # TARGET
    local name=${1//-/_} wrapper=$TARGET_DIR/cc-$1 program zig_target
    case $1 in
        *-unknown-linux-musl) zig_target=${1%%-*}-linux-musl ;;
        *-apple-darwin) zig_target=${1%%-*}-macos ;;
    esac
    program=$(zig)
    mkdir -p "$TARGET_DIR"
    cat >"$wrapper" <<END
#!/usr/bin/env bash
arguments=()
for argument in "\$@"; do
    case \$argument in
        --target=*|-mmacosx-version-min=*) ;;
        *) arguments+=("\$argument") ;;
    esac
done
exec "$program" cc -target $zig_target -fno-sanitize=undefined "\${arguments[@]}"
END
    printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$program" >"$wrapper-ar"
    chmod +x "$wrapper" "$wrapper-ar"
    export "CC_$name=$wrapper" "AR_$name=$wrapper-ar"
}

needs_tools() {
    local missing=()
    command -v dpkg-deb >/dev/null || missing+=(dpkg)
    command -v readelf >/dev/null || missing+=(binutils)
    command -v xz >/dev/null || missing+=(xz-utils)
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    [ -d /usr/share/ca-certificates/mozilla ] || missing+=(ca-certificates)
    [ "${#missing[@]}" -eq 0 ] || { echo "error: ./release needs ${missing[*]} (apt-get install)" >&2; return 1; }
    local triple
    for triple in "${TARGETS[@]}"; do
        [ -d "$RUST_SYSROOT/lib/rustlib/${triple%%:*}/lib" ] || rustup target add "${triple%%:*}"
    done
}

# A tar that is the same whenever and by whomever it is made.
tidy_tar() { # FILE TAR-ARGUMENTS
    local file=$1
    shift
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar "$@" | gzip -9n >"$file"
}

# A template with the version, the addresses and the sums of the archives in a folder, and then with pairs of a name and a value.
fill() { # TEMPLATE FOLDER [NAME VALUE]...
    local sums='' line text name
    text=$(cat "$1" && echo .)
    sums=$(cd "$2" && find . -name "rethread-$VERSION-*.tar.gz" -printf '%P\0' | LC_ALL=C sort -z | xargs -0 --no-run-if-empty sha256sum --)
    shift 2
    for name in x86_64-linux aarch64-linux; do
        line=$(grep -- "-$name.tar.gz" <<<"$sums" || true)
        set -- "$@" "SUM-$name" "${line%% *}"
    done
    set -- "$@" SUMS "$sums" VERSION "$VERSION" RELEASES_URL "$RETHREAD_RELEASES_URL" HOMEPAGE "$RETHREAD_HOMEPAGE" MAINTAINER "$RETHREAD_MAINTAINER"
    while [ $# -gt 0 ]; do
        text=${text//"@$1@"/"$2"}
        shift 2
    done
    printf %s "${text%.}"
}
