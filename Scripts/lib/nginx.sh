# Sourced by scripts that need a web server: start_nginx FOLDER WORK serves FOLDER on a free loopback port.
# Sets $base (the URL) and $nginx_pid; stop_nginx ends it. Configuration and logs stay in WORK.
# With nginx_access_log=off, requests are not logged.

nginx_pid=""
base=""

stop_nginx() {
    [ -n "$nginx_pid" ] || return 0
    kill "$nginx_pid" 2>/dev/null || true
    wait "$nginx_pid" 2>/dev/null || true
    nginx_pid=""
}

write_nginx_conf() {
    cat >"$2/nginx.conf" <<CONF
daemon off;
worker_processes 1;
pid "$2/nginx.pid";
error_log "$2/nginx-error.log";
$([ "$(id -u)" -ne 0 ] || echo "user $(id -un) $(id -gn);")
events { worker_connections 64; }
http {
    sendfile on;
    tcp_nopush on;
    access_log ${nginx_access_log:-"$2/nginx-access.log"};
    client_body_temp_path "$2/nginx-tmp";
    proxy_temp_path "$2/nginx-tmp";
    fastcgi_temp_path "$2/nginx-tmp";
    uwsgi_temp_path "$2/nginx-tmp";
    scgi_temp_path "$2/nginx-tmp";
    server { listen 127.0.0.1:$3; root "$1"; }
}
CONF
}

start_nginx() {
    for attempt in 1 2 3 4 5; do
        port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        write_nginx_conf "$1" "$2" "$port"
        nginx -e "$2/nginx-error.log" -c "$2/nginx.conf" 2>>"$2/nginx-error.log" &
        nginx_pid=$!
        base=http://127.0.0.1:$port
        if curl -sS -o /dev/null --retry 20 --retry-delay 1 --retry-connrefused --max-time 30 "$base/" 2>/dev/null \
            && kill -0 "$nginx_pid" 2>/dev/null; then
            return 0
        fi
        stop_nginx
        echo "nginx: attempt $attempt on port $port did not work" >&2
    done
    cat "$2/nginx-error.log" >&2
    return 1
}
