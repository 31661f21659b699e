"""Writes the tables and plots of a fleet: Guide/concepts/fleet.md between its markers, and Guide/concepts/fleet/*.svg."""

import html
import math
import re

BEGIN, END = "<!-- made by Scripts/prove/fleet --write: do not edit -->", "<!-- end -->"
# Colours for light and dark pages; the last is for the scenario without a guard.
COLOURS = ("#2a7f62", "#3566b8", "#8a5fb0", "#c2660c", "#b3261e")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 360, 64, 16, 52, 44


def title(one):
    return f"{one['failing'] / 10:g} %" + ("" if one["guarded"] else ", at once")


def number(value):
    return f"{value:,.0f}"


def size(value):
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value} B"


def span(seconds):
    if seconds >= 172_800:
        return f"{seconds / 86_400:.1f} d"
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def table(first, scenarios, rows):
    lines = [f"| {first} | {' | '.join(map(title, scenarios))} |", "| --- |" + " ---: |" * len(scenarios)]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(map(cell, scenarios))} |" for name, cell in rows)])


def stopped(one):
    bad = next((event["at"] for event in one["events"] if re.search("pauses|recalled", event["what"])), None)
    return "—" if bad is None else span(bad - one["published"][0])


def since(one, share):
    return span(one["times"][share] - one["published"][one["target"]]) if one["times"] else "—"


def reach(figures):
    scenarios = [one for one in figures["scenarios"] if one["failing"]]
    return table("devices that cannot start it", scenarios, [
        ("devices that ever ran it", lambda one: number(one["ranBad"])),
        ("of these, rolled back automatically", lambda one: number(one["failed"])),
        ("most that ran it at one time", lambda one: number(one["mostOnBad"])),
        ("paused or recalled after", stopped),
        ("run it in the end, with the right time", lambda one: number(one["endsOnBad"] - one["shutOutOnBad"])),
        ("run it in the end because of a wrong clock", lambda one: number(one["shutOutOnBad"])),
    ])


def times(figures):
    rows = [(f"{name} of the devices have it after", lambda one, share=share: since(one, share))
            for share, name in (("500", "50 %"), ("900", "90 %"), ("990", "99 %"), ("999", "99.9 %"))]
    rows.append(("the last one has it after", lambda one: since(one, "last")))
    rows.append(("without it because of a wrong clock", lambda one: number(one["shutOut"])))
    return table("the good release", figures["scenarios"], rows)


def rate(one, name):
    return one["load"][name] / one["load"]["secondsBefore"]


def loads(figures):
    def most(name):
        return lambda one: number(one["load"][name])

    return table("requests a second", figures["scenarios"], [
        ("CDN, before the release", lambda one: number(rate(one, "before"))),
        ("CDN, the worst second", most("most")),
        ("origin, before the release", lambda one: f"{rate(one, 'originBefore'):.1f}"),
        ("origin, the worst second", most("originMost")),
    ])


def routes(figures):
    def cell(route):
        def text(one):
            count = one["routes"][route]
            return f"{number(count['requests'])}; {size(count['bytes'])}"
        return text

    def origin(one):
        return size(sum(one["routes"][route]["originBytes"] for route in ("deltaList", "delta", "archive")))

    return table("downloads: requests; bytes", figures["scenarios"], [
        ("lists of deltas", cell("deltaList")), ("deltas", cell("delta")), ("archives", cell("archive")),
        ("from the origin", origin)])


def events(figures):
    lines = ["| devices that cannot start it | after | what happens |", "| ---: | ---: | --- |"]
    for one in figures["scenarios"]:
        name = title(one)
        for event in one["events"]:
            lines.append(f"| {name} | {span(event['at'] - figures['releaseAt'])} | {event['what']} |")
            name = ""
    return "\n".join(lines)


def summary(figures):
    good = next(one for one in figures["scenarios"] if one["failing"] == 0)
    guarded = [one for one in figures["scenarios"] if one["guarded"] and one["failing"] >= 100]
    worst = max(guarded, key=lambda one: one["ranBad"])
    downloads = [good["routes"][route] for route in ("deltaList", "delta", "archive")]
    document = good["routes"]["document"]
    daily = rate(good, "before") * 86_400
    repeated = good["repeatedBytes"] / document["bytes"]
    return (
        f"One release to {number(figures['devices'])} devices costs {number(sum(one['requests'] for one in downloads))} requests and "
        f"{number(sum(one['bytes'] for one in downloads) / 1e9)} GB: {size(good['routes']['delta']['bytes'])} as deltas, and "
        f"{size(good['routes']['archive']['bytes'])} for the devices that download the archive. With the guard, a release that fails on 10 % "
        f"or more of the devices reaches at most {number(worst['ranBad'])} of them, and none of these keeps it.\n\n"
        f"Without any release, the fleet sends {number(daily / 1e6)} million requests a day, {number(rate(good, 'before'))} a second, and "
        f"downloads {size(daily / 2 * document['bytes'] / document['requests'])} of channel files a day. The devices already had {repeated:.1%} "
        f"of these bytes. The origin answers {rate(good, 'originBefore'):.1f} requests a second, for a fleet of any size.")


def tables(figures):
    return "\n\n".join([
        summary(figures), "### How far a bad release gets", reach(figures),
        "![Devices whose client is the bad release](fleet/reach.svg)", "### How long the good release takes", times(figures),
        "![Devices whose client is the good release](fleet/adoption.svg)", "### What it costs", loads(figures), routes(figures),
        "![Requests a second](fleet/load.svg)", "### What happened", events(figures),
        f"Made by `Scripts/prove/fleet --devices {figures['devices']} --seed {figures['seed']} --write`."])


# Plots


class Plot:
    """A plot over the hours since the release, as an SVG for light and dark pages."""

    def __init__(self, heading, hours, low, high, logarithmic, words):
        self.heading, self.hours, self.low, self.high = heading, hours, low, high
        self.logarithmic, self.words, self.parts, self.legend = logarithmic, words, [], []
        self.axes()

    def x(self, hour):
        return LEFT + (WIDTH - LEFT - RIGHT) * hour / self.hours

    def y(self, value):
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = (math.log10(max(number, self.low)) for number in (value, low, high))
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (min(value, high) - low) / (high - low)

    def axes(self):
        if self.logarithmic:
            ticks = [10 ** power for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)]
        else:
            ticks = [self.low + (self.high - self.low) * part / 5 for part in range(6)]
        for tick in ticks:
            self.parts.append(f'<path class="grid" d="M{LEFT} {self.y(tick):.1f}H{WIDTH - RIGHT}"/>')
            self.text(LEFT - 6, self.y(tick) + 4, self.words(tick), "end")
        for hour in range(0, self.hours + 1, 3 if self.hours <= 24 else 12):
            self.text(self.x(hour), HEIGHT - BOTTOM + 16, str(hour), "middle")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "hours since the release", "middle")

    def text(self, x, y, words, anchor="start", kind=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{html.escape(words)}</text>')

    def line(self, name, points, colour, dash=""):
        inside = [(self.x(hour), self.y(value)) for hour, value in points if 0 <= hour <= self.hours]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in inside)
        style = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<path class="line" stroke="{colour}" d="M{path}"{style}/>')
        self.legend.append((name, colour, style))

    def svg(self):
        x = LEFT
        for name, colour, style in self.legend:
            self.parts.append(f'<path class="line" stroke="{colour}" d="M{x} 36h20"{style}/>')
            self.text(x + 26, 40, name)
            x += 44 + 7 * len(name)
        self.text(LEFT, 18, self.heading, kind=' class="heading"')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(self.heading)}">\n'
            "<style>.page{fill:#fff}text{font:12px sans-serif;fill:#333}.heading{font-weight:bold;font-size:14px}"
            ".grid{stroke:#8884;fill:none}.line{fill:none;stroke-width:2;stroke-linejoin:round}"
            "@media(prefers-color-scheme:dark){.page{fill:#1c1d21}text{fill:#ddd}.line{filter:brightness(1.5)}}</style>\n"
            f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def hours(figures, index):
    return (index * figures["sample"] - figures["releaseAt"]) / 3600


def thousands(value):
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1000:g} k" if value >= 1000 else f"{value:g}"


def reach_plot(figures):
    top = 10 ** math.ceil(math.log10(figures["devices"]))
    plot = Plot("Devices whose client is the bad release", 24, 1, top, True, thousands)
    for one, colour in list(zip(figures["scenarios"], COLOURS))[1:]:
        points = [(hours(figures, index), sample[0]) for index, sample in enumerate(one["samples"])]
        plot.line(title(one), points, colour, "" if one["guarded"] else "6 4")
    return plot.svg()


def adoption_plot(figures):
    plot = Plot("Devices whose client is the good release", 48, 0, 100, False, lambda value: f"{value:.0f} %")
    for one, colour in zip(figures["scenarios"], COLOURS):
        points = [(hours(figures, index), sample[one["target"]] * 100 / figures["devices"])
                  for index, sample in enumerate(one["samples"])]
        plot.line(title(one), points, colour, "" if one["guarded"] else "6 4")
    return plot.svg()


def load_plot(figures):
    worst = max(max(one["load"]["requests"]) for one in figures["scenarios"]) / figures["sample"]
    plot = Plot("Requests a second, means of five minutes", 12, 1, 10 ** math.ceil(math.log10(worst)), True, thousands)
    shown = [one for one in figures["scenarios"] if one["failing"] == 0 or not one["guarded"]]
    for one, colour in zip(shown, (COLOURS[0], COLOURS[-1])):
        for name, words, dash in (("requests", "CDN", ""), ("originRequests", "origin", "2 3")):
            # The last interval may be shorter.
            values = one["load"][name][:-1]
            points = [(hours(figures, index), value / figures["sample"]) for index, value in enumerate(values)]
            plot.line(f"{title(one)}: {words}", points, colour, dash)
    return plot.svg()


def write(figures, folder):
    page = folder / "fleet.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    page.write_text(f"{before}{BEGIN}\n\n{tables(figures)}\n\n{END}{after}", encoding="utf-8")
    (folder / "fleet").mkdir(exist_ok=True)
    for name, plot in (("reach", reach_plot), ("adoption", adoption_plot), ("load", load_plot)):
        (folder / "fleet" / f"{name}.svg").write_text(plot(figures), encoding="utf-8")
