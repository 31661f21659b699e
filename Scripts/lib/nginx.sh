# Sourced by scripts that need a web server: start_nginx FOLDER WORK serves FOLDER on a free loopback port.
# Sets $base (the URL) and $nginx_pid; stop_nginx stops it. The configuration and the logs are in WORK.
# With nginx_access_log=off, requests are not logged.

nginx_pid=""
base=""

stop_nginx() {
    [ -z "$nginx_pid" ] || kill "$nginx_pid" 2>/dev/null || true
    nginx_pid=""
}

start_nginx() {
    started=$(python3 "$root/Scripts/lib/nginx.py" "$1" "$2" "${nginx_access_log:-"$2/nginx-access.log"}") || return 1
    nginx_pid=${started% *}
    base=http://127.0.0.1:${started#* }
}
