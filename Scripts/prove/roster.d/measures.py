"""The load of a roster, and its behavior with a killed host, a full disk, a flood and an impostor."""

import http.client
import os
import random
import sqlite3
import subprocess
import threading
import time

from host import INTERVAL, Device, Host, row

DEVICES, MOST = 10_000, 100_000


def load(host, seconds):
    rate = DEVICES / INTERVAL
    devices = [Device(number) for number in range(int(rate * seconds) + 1)]
    before, start, worst, bad = host.usage()[0], time.monotonic(), 0.0, 0
    threads, lock = [], threading.Lock()

    def send(device):
        nonlocal worst, bad
        began = time.monotonic()
        status = host.post(device)
        with lock:
            worst, bad = max(worst, time.monotonic() - began), bad + (status != 200)

    for number, device in enumerate(devices):
        time.sleep(max(0, start + number / rate - time.monotonic()))
        threads.append(threading.Thread(target=send, args=(device,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    used, peak = host.usage()
    share = 100 * (used - before) / (time.monotonic() - start)
    row(f"{DEVICES:,} devices every {INTERVAL // 60} minutes, for {seconds} s",
        f"{share:.1f} % of a core, {peak:.0f} MB, {bad} refused, slowest {worst:.2f} s", "2 %, 60 MB, 0",
        share <= 2 and peak <= 60 and bad == 0)


def fill(database):
    connection = sqlite3.connect(database)
    now = int(time.time())
    connection.executemany(
        "INSERT OR IGNORE INTO devices (device, name, runs, state, blocked, findings, program, interval, seen, first, since, key) "
        "VALUES (?, ?, '1.5.1', 'good', '', '', '0.9.0', 900, ?, ?, ?, 'x')",
        ((f"f{number:015x}", f"Screen {number}", now - number % 5000, now, now) for number in range(MOST)))
    connection.commit()
    connection.close()


def largest(program, feed, database, operators):
    fill(database)
    host = Host(program, feed, database, operators)
    row(f"start with {MOST:,} devices", f"{host.started:.2f} s", "1 s", host.started <= 1)
    began = time.monotonic()
    status, page = host.get("/roster?name=Screen+77")
    row(f"page of {MOST:,} devices", f"{status}, {len(page) / 1024:.0f} KB, {time.monotonic() - began:.2f} s", "200", status == 200)
    host.end()


def kill(program, feed, folder, operators, rounds=10):
    database, acknowledged, lock = f"{folder}/killed.db", [], threading.Lock()
    number = 0
    for _ in range(rounds):
        host = Host(program, feed, database, operators)

        def send(device):
            try:
                if host.post(device) == 200:
                    with lock:
                        acknowledged.append(device.id)
            except (OSError, http.client.HTTPException):
                pass

        threads = []
        for _ in range(40):
            number += 1
            threads.append(threading.Thread(target=send, args=(Device(number),)))
            threads[-1].start()
        time.sleep(random.uniform(0.05, 0.8))
        host.end(9)
        for thread in threads:
            thread.join()
    stored = {one for (one,) in sqlite3.connect(database).execute("SELECT device FROM devices")}
    lost = len(set(acknowledged) - stored)
    row(f"{rounds} times kill -9 at a random time", f"{len(acknowledged)} acknowledged, {lost} lost", "0 lost", lost == 0 and acknowledged)


def full(program, feed, folder, operators):
    if os.geteuid() != 0:
        return row("full disk", "skipped: not root", "507", True)
    small = f"{folder}/small"
    os.mkdir(small)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        host = Host(program, feed, f"{small}/roster.db", operators)
        first = host.post(Device(1))
        with open(f"{small}/ballast", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        statuses = {host.post(Device(number, "n" * 60)) for number in range(2, 40)}
        served = host.get("/manifest.json")[0]
        os.remove(f"{small}/ballast")
        after = host.post(Device(50))
        host.end()
    finally:
        subprocess.run(["umount", small], check=True)
    row("full disk", f"{first}, then {sorted(statuses)}, feed {served}, after clearing {after}", "200, 507, 200, 200",
        first == 200 and 507 in statuses and statuses <= {200, 507} and served == 200 and after == 200)


def flood(host):
    device = Device(999_001)
    start, statuses = time.monotonic(), []

    def send():
        connection = http.client.HTTPConnection("127.0.0.1", host.port)
        while time.monotonic() - start < 4:
            statuses.append(host.post(device, connection))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    other = host.post(Device(999_002))
    for thread in threads:
        thread.join()
    accepted, refused = statuses.count(200), statuses.count(429)
    most = int(20 + 5 * (time.monotonic() - start) + 1)
    row("flood of one address for 4 s", f"{accepted} accepted, {refused} with 429", f"at most {most}", accepted <= most and refused > 0)
    row("another address during the flood", f"{other}", "200", other == 200)


def impostor(host):
    real, forged = Device(999_003, "Real"), Device(999_003, "Forged")
    forged.address = "10.9.9.9"
    statuses = [host.post(real), host.post(forged)]
    page = host.get("/roster?name=Real")[1].decode()
    row("another key for a known device", f"{statuses}, shown: {'another key signs' in page}", "[200, 409], True",
        statuses == [200, 409] and "another key signs" in page)
