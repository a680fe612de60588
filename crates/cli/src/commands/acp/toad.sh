#!/bin/sh
# Starts Toad with an agent that has a memory: Toad has no setting for agents of one's own.
# Written by `rethread acp --install toad`, which writes it anew; `rethread acp --uninstall toad` removes it.
case ${1-} in
# agents
*)
    echo "usage: rethread-toad AGENT [FOLDER]" >&2
    echo "agents:" 'names' >&2
    exit 2
    ;;
esac
folder=${2:-.}
exec toad acp "$command" --title "$title" --project-dir "$folder" "$folder"
