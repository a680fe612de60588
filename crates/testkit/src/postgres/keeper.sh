# Keeps a PostgreSQL server for as long as a process lives, and leaves nothing behind.
# FOLDER (there, and empty but for its lock), PROGRAMS of PostgreSQL, the PROCESS, and the USER to be, where we are root.
# With a PORT it listens there as well, to who comes with a password and over TLS; its certificate is FOLDER/own.pem, signed by root.pem.
set -euo pipefail
folder=$1 programs=$2 process=$3 user=$4 port=${5-}
cd /
exec 3>&1 >"$folder/log" 2>&1

as=(setpriv --pdeathsig QUIT)  # It ends with us, even if we are killed.
mkdir "$folder/data" "$folder/socket"
if [ -n "$user" ]; then
    as+=("--reuid=$user" "--regid=$user" --init-groups)
    chown "$user:" "$folder/data" "$folder/socket"
    chmod 755 "$folder"
fi
chmod 700 "$folder/data"

server='' watch='' is_ready=''
end() {
    trap '' EXIT INT TERM HUP
    [ -n "$is_ready" ] || cat "$folder/log" >&3 || true
    [ -z "$server" ] || kill -QUIT "$server" 2>/dev/null || true
    [ -z "$watch" ] || kill "$watch" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

"${as[@]}" "$programs/initdb" --no-sync -A trust -U postgres -E UTF8 --locale=C.UTF-8 -D "$folder/data" 3>&-
cat >>"$folder/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$folder/socket'
max_connections = 200
shared_buffers = 64MB
dynamic_shared_memory_type = mmap
fsync = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
max_wal_size = 256MB
autovacuum_naptime = 10s
log_min_messages = fatal
END
if [ -n "$port" ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=a root' -keyout "$folder/root.key" -out "$folder/root.pem" 3>&-
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -CA "$folder/root.pem" -CAkey "$folder/root.key" \
        -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
        -keyout "$folder/data/server.key" -out "$folder/data/server.crt" 3>&-
    cp "$folder/data/server.crt" "$folder/own.pem"
    chmod 600 "$folder/data/server.key"
    [ -z "$user" ] || chown "$user:" "$folder/data/server.key" "$folder/data/server.crt"
    printf "listen_addresses = '127.0.0.1'\nport = %s\nssl = on\n" "$port" >>"$folder/data/postgresql.conf"
    printf 'local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n' >"$folder/data/pg_hba.conf"
fi
"${as[@]}" "$programs/postgres" -D "$folder/data" 3>&- &
server=$!
until "$programs/pg_isready" -q -h "$folder/socket" -p "${port:-5432}" -U postgres; do
    kill -0 "$server"
    sleep 0.05
done
echo ready >&3
exec 3>&-
is_ready=yes
tail --pid="$process" -f /dev/null &
watch=$!
wait -n "$server" "$watch" || true
