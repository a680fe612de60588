#!/bin/sh
# Installs rethread @VERSION@ on Linux: takes the archive for this machine, compares its SHA-256 with the one that is written
# below, and copies the program, its manual and its completions. Needs no Rust toolchain.
#
#   sh install.sh [--prefix DIR] [--from PLACE]   into ~/.local, or /usr/local if you are root
#   sh install.sh --remove [--prefix DIR]         removes what it has installed; sessions stay
#
# PLACE is a folder, or an address below which the archive is.
set -eu

version='@VERSION@'
releases='@RELEASES_URL@'
sums='@SUMS@'

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $1"
    [ $# -lt 2 ] || say "  $2"
    exit 1
}

usage() {
    say "usage: sh install.sh [--prefix DIR] [--from FOLDER-OR-ADDRESS]"
    say "       sh install.sh --remove [--prefix DIR]"
    exit 2
}

# The lines of FILE that are not in OTHER.
only_in() {
    while IFS= read -r line; do
        grep -qxF -- "$line" "$2" || printf '%s\n' "$line"
    done <"$1"
}

# Removes the files that are named on standard input, and the folders that this leaves empty.
remove_files() {
    while IFS= read -r file; do
        rm -f -- "$prefix/$file"
        folder=$(dirname -- "$file")
        while [ "$folder" != . ] && rmdir -- "$prefix/$folder" 2>/dev/null; do
            folder=$(dirname -- "$folder")
        done
    done
}

sum_of() {
    if command -v sha256sum >/dev/null; then
        sha256sum -- "$1" | cut -d' ' -f1
    elif command -v shasum >/dev/null; then
        shasum -a 256 -- "$1" | cut -d' ' -f1
    elif command -v openssl >/dev/null; then
        openssl dgst -sha256 -r "$1" | cut -d' ' -f1
    else
        fail "there is nothing to compare sums with" "install sha256sum (coreutils), shasum or openssl"
    fi
}

fetch() { # NAME FILE
    case $from in
        https://*) secure=https ;;
        http://*) secure=http,https ;;
        *)
            cp -- "$from/$1" "$2" || fail "there is no $1 in $from"
            return ;;
    esac
    if command -v curl >/dev/null; then
        curl --proto "=$secure" --fail --silent --show-error --location --retry 3 --output "$2" "$from/$1" \
            || fail "$from/$1 could not be downloaded"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$from/$1" || fail "$from/$1 could not be downloaded"
    else
        fail "there is nothing to download with" "install curl or wget, or download $from/$1 and give its folder with --from"
    fi
}

# A function, so that half a script does nothing when a download ends early.
main() {
    prefix=
    from=
    remove=
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix | --from)
                [ -n "${2:-}" ] || usage
                if [ "$1" = --prefix ]; then prefix=$2; else from=$2; fi
                shift 2 ;;
            --remove)
                remove=yes
                shift ;;
            *) usage ;;
        esac
    done
    if [ -z "$prefix" ]; then
        if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
    fi
    list=share/doc/rethread/files

    if [ -n "$remove" ]; then
        [ -f "$prefix/$list" ] || fail "rethread was not installed below $prefix by this script" "name the folder with --prefix"
        files=$(cat "$prefix/$list")
        printf '%s\n' "$files" | remove_files
        say "Removed rethread from $prefix. Sessions are still there: \`rethread\` had them in your data folder."
        exit 0
    fi

    [ "$(uname -s)" = Linux ] || fail "there is an archive for Linux only, and this is $(uname -s)" "build it: cargo install --path crates/cli"
    case $(uname -m) in
        x86_64 | amd64) machine=x86_64 ;;
        aarch64 | arm64) machine=aarch64 ;;
        *) fail "there is no archive for $(uname -m)" "build it: cargo install --path crates/cli" ;;
    esac
    name=rethread-$version-$machine-linux
    expected=$(printf '%s\n' "$sums" | sed -n "s/^\([0-9a-f]\{64\}\)  $name\.tar\.gz\$/\1/p")
    [ -n "$expected" ] || fail "this script knows no sum for $name.tar.gz" "take the install.sh of a release: ./release fills it in"
    if [ -z "$from" ]; then
        [ -n "$releases" ] || fail "this script does not know where to download from" "give the folder or the address with --from"
        from=$releases/v$version
    fi

    work=$(mktemp -d)
    half=$work/half
    trap 'rm -rf -- "$work" "$half"' EXIT
    trap 'exit 130' INT HUP TERM
    fetch "$name.tar.gz" "$work/archive"
    actual=$(sum_of "$work/archive")
    [ "$actual" = "$expected" ] || fail "the sum of $name.tar.gz is wrong: it is not the file that was released, and nothing was installed" \
        "expected $expected, got $actual"

    mkdir "$work/new"
    gzip -dc "$work/archive" | tar -xf - -C "$work/new"
    new=$work/new/$name
    (cd "$new" && find . -type f | sed 's,^\./,,' && printf '%s\n' "$list") >"$work/files"

    mkdir -p -- "$prefix/bin" "$prefix/share/doc/rethread" || fail "nothing can be written below $prefix" "choose another folder with --prefix"
    if [ -f "$prefix/$list" ]; then cp -- "$prefix/$list" "$work/before"; else : >"$work/before"; fi
    half=$prefix/bin/rethread.new
    cp -- "$new/bin/rethread" "$half"
    "$half" --version >/dev/null || fail "the program does not run on this machine, and nothing was installed"
    # Whatever happens from here on, `--remove` knows the files. Each is put in place whole, and a program that runs goes on.
    sort -u "$work/before" "$work/files" >"$work/both"
    cp -- "$work/both" "$prefix/$list"
    while IFS= read -r file; do
        [ "$file" != "$list" ] || continue
        mkdir -p -- "$prefix/$(dirname -- "$file")"
        half=$prefix/$file.new
        cp -- "$new/$file" "$half"
        mv -f -- "$half" "$prefix/$file"
    done <"$work/files"
    only_in "$work/before" "$work/files" | remove_files
    cp -- "$work/files" "$prefix/$list"

    say "Installed $("$prefix/bin/rethread" --version) to $prefix/bin/rethread. See it at work: rethread tour"
    case :$PATH: in
        *:"$prefix/bin":*) ;;
        *) say "$prefix/bin is not on your PATH: add it there." ;;
    esac
}

main "$@"
