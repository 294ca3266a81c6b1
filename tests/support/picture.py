"""Draw the picture of the README from the solution that `make run` writes.

Run by hand after `make run`: ``.venv/bin/python -m tests.support.picture``. A heavy test draws it again.
"""

from __future__ import annotations

from pathlib import Path

import topoopt
from tests.support.paths import ROOT
from topoopt.page.text import number

PICTURE = ROOT / "docs/images/candle-16.svg"
NAMES = {
    "ideal-switch": "ideal switch",
    "fat-tree": "fat-tree, same price",
    "full-fat-tree": "fat-tree, full bandwidth",
    "random-regular": "random links",
}
LABEL, SCALE, ROW = 190, 440, 30
"""Pixels: of the names, of the longest bar, of the height of a bar with its gap."""


def drawn(solution: Path) -> str:
    """Bars of the iteration time of a plan, of the same job on other networks, and of the bound; the fastest first."""
    result = topoopt.read_solution(solution)
    usd = dict(result.figures.prices.usd)
    rows = [
        (line.iteration_time_ms, NAMES[line.fabric], usd[line.fabric], "#8a94a6") for line in result.figures.baselines
    ]
    rows.append((result.objective.value, "links by topoopt", usd["direct-connect"], "#00796b"))
    rows.append((result.bound.value, "bound: no plan is faster", 0.0, "#d5dae3"))
    longest = max(time for time, *_ in rows)
    width, height = LABEL + SCALE + 190, ROW * len(rows) + 12
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="14">',
        "<title>Time of an iteration of CANDLE on 16 servers, and the price of each network</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for i, (time, name, price, colour) in enumerate(sorted(rows)):
        y, end = ROW * i + 8, LABEL + round(SCALE * time / longest)
        bought = f", {price:,.0f} USD" if price else ""
        lines += [
            f'<text x="{LABEL - 10}" y="{y + 17}" text-anchor="end" fill="#1f2430">{name}</text>',
            f'<rect x="{LABEL}" y="{y}" width="{end - LABEL}" height="24" fill="{colour}"/>',
            f'<text x="{end + 8}" y="{y + 17}" fill="#1f2430">{number(time)} ms{bought}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(drawn(ROOT / "out/candle-16/solution.json"))
