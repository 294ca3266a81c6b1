"""The curve of a front: least time of a vector by its size, and what bounds it."""

from __future__ import annotations

import itertools

from markupsafe import Markup

from topoopt.core.collective_solution import CollectiveSolution
from topoopt.drawing.axes import number_axis
from topoopt.drawing.chart import Point, Series, legend, xy_chart
from topoopt.drawing.format import byte_size
from topoopt.kinds.collective.words import time_text

DECADES = 3.0
"""Sizes are shown from so many powers of ten before the second schedule to as many after the last one."""


def front_chart(solution: CollectiveSolution) -> Markup:
    """Time over bytes, both in powers of ten: a line for each schedule where it is the best one."""
    points = solution.front
    turns = [point.from_bytes for point in points[1:]] or [solution.vector_bytes]
    low = max(min(turns[0], solution.vector_bytes) / 10**DECADES, 1.0)
    high = max(turns[-1], solution.vector_bytes) * 10**DECADES
    ends = [low, *(float(turn) for turn in turns if len(points) > 1), high]
    series = []
    for point, (begin, end) in zip(points, itertools.pairwise(ends), strict=True):
        name = f"{point.method}, {point.steps} steps"
        sizes = [begin * (end / begin) ** (step / 8) for step in range(9)]
        own = tuple(Point(s, point.time_us(s), f"{byte_size(s)}: {time_text(point.time_us(s))}\n{name}") for s in sizes)
        series.append(Series(name, own, line=True, dots=False))
    size = float(solution.vector_bytes)
    tip = f"{byte_size(size)}: {time_text(solution.time_us)}, this solution"
    series.append(Series("this solution", (Point(size, solution.time_us, tip),)))
    x = number_axis("bytes of the vector", ends, log=True)
    y = number_axis("time, us", [point.y for one in series for point in one.points], log=True)
    return legend([one.name for one in series], series) + xy_chart(series, x, y, "Least time by the size of the vector")
