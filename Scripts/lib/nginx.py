"""Starts an nginx on free ports of this machine.

  nginx.py FOLDER WORK   serves FOLDER, with its files in WORK; prints the process id and the port
"""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

BASE = """daemon off;
worker_processes 1;
worker_rlimit_nofile 65000;
pid "{work}/nginx.pid";
error_log "{work}/nginx-error.log";
{user}
events {{ worker_connections 30000; }}
http {{
    access_log off;
    default_type application/octet-stream;
    client_body_temp_path "{work}/nginx-tmp";
    proxy_temp_path "{work}/nginx-tmp";
    fastcgi_temp_path "{work}/nginx-tmp";
    uwsgi_temp_path "{work}/nginx-tmp";
    scgi_temp_path "{work}/nginx-tmp";
{http}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nginx:
    """An nginx with `http` as the content of its http block, until `end`. It is ready when `port` accepts connections."""

    def __init__(self, work, http, port):
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if program is None:
            raise SystemExit("nginx is not installed: run Scripts/bootstrap")
        work = pathlib.Path(work)
        user = "user root;" if os.getuid() == 0 else ""
        conf = work / "nginx.conf"
        conf.write_text(BASE.format(work=work, user=user, http=http))
        self.child = subprocess.Popen(
            [program, "-e", str(work / "nginx-error.log"), "-c", str(conf)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.child.poll() is not None:
                break
            time.sleep(0.05)
        self.end()
        raise SystemExit(f"nginx did not start: {(work / 'nginx-error.log').read_text()}")

    def end(self):
        self.child.terminate()
        self.child.wait()


def main(folder, work):
    for attempt in range(5):
        port = free_port()
        http = f'sendfile on; tcp_nopush on; server {{ listen 127.0.0.1:{port}; root "{folder}"; }}'
        try:
            print(Nginx(work, http, port).child.pid, port)
            return
        except SystemExit:
            # Another process may have taken the port.
            if attempt == 4:
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
