"""The shared part of the bench tables: reading results.jsonl, medians, rows with a target, and Markdown."""

import json
import statistics
import sys

MB = 1_000_000
facts, costs, answers, rows = {}, {}, {}, []
with open(sys.argv[1], encoding="utf-8") as results:
    for line in results:
        entry = json.loads(line)
        if "fact" in entry:
            facts[entry["fact"]] = entry["value"]
        else:
            key = entry["row"], entry["side"]
            costs.setdefault(key, []).append(entry["cost"])
            answers.setdefault(key, []).append(entry["answer"])


def number(cost, what):
    """Returns wall (s), cpu (s) or memory (bytes) of one cost, or another value unchanged."""
    if what == "cpu":
        return cost["user_s"] + cost["sys_s"]
    if what == "memory":
        return cost["maxrss_kb"] * 1024
    return cost[{"wall": "wall_s"}.get(what, what)]


def median(row, side, what):
    """Returns None if the row was not measured."""
    values = [number(cost, what) for cost in costs.get((row, side), [])]
    return statistics.median(values) if values else None


def spread(row, side):
    walls = [cost["wall_s"] for cost in costs[(row, side)]]
    return f"{seconds(min(walls))} to {seconds(max(walls))}"


def seconds(value):
    return f"{value * 1000:.1f} ms" if value < 0.2 else f"{value:.2f} s"


def megabytes(value):
    return f"{value / MB:.1f} MB"


def stage(row, name):
    """Returns the median seconds of one timing of clientctl."""
    timings = [answer["timings"][name] for answer in answers.get((row, "ours"), []) if answer and answer.get("timings")]
    return statistics.median(timings) / 1000


def bounds(row):
    """Returns the medians of `timings` in the JSON of clientctl, largest first."""
    timings = [answer["timings"] for answer in answers.get((row, "ours"), []) if answer and answer.get("timings")]
    if not timings:
        return ""
    parts = {}
    for name in timings[0]:
        values = [timing[name] for timing in timings if isinstance(timing.get(name), (int, float))]
        if values:
            parts[name] = statistics.median(values)
    total = sum(parts.values())
    if total <= 0:
        return ""
    largest = sorted(parts, key=parts.get, reverse=True)[:4]
    return ", ".join(f"{name} {100 * parts[name] / total:.0f} %" for name in largest if parts[name] > 0)


def rate(value):
    return f"{value:,.0f} /s"


def verdict(held):
    return "met" if held else "**missed**"


def compared(title, row, what, target, note=None):
    """Adds a row that compares ours with stock. `target` is the highest ratio, or None."""
    ours, stock = median(row, "ours", what), median(row, "stock", what)
    if ours is None or stock is None:
        return
    show = megabytes if what == "memory" else seconds
    rows.append((title, show(ours), show(stock), f"{ours / stock:.2f}", f"≤ {target:.2f}" if target else "",
                 verdict(ours <= target * stock) if target else "", bounds(row) if note is None else note))


def at_least(title, row, what, target, note=""):
    """Adds a row that compares ours with stock, where more is better."""
    ours, stock = median(row, "ours", what), median(row, "stock", what)
    rows.append((title, rate(ours), rate(stock), f"{ours / stock:.2f}", f"≥ {target:.2f}",
                 verdict(ours >= target * stock), note))


def absolute(title, ours, limit, show, stock="", note=""):
    if ours is None:
        return
    rows.append((title, show(ours), stock, "", f"≤ {show(limit)}" if limit is not None else "",
                 verdict(ours <= limit) if limit is not None else "", note))


def print_table():
    print("| row | ours | stock | ratio | target | verdict | what bounds it |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def print_heading(title):
    print(f"### {title}")
    print()
    if facts["kind"] != "real":
        print("**A generated client replaces the real one, so these results are not comparable.**")
        print()


def print_misses():
    missed = sum("missed" in row[5] for row in rows)
    print(f"\n{missed} target{'' if missed == 1 else 's'} missed." if missed else "\nEvery target met.")
