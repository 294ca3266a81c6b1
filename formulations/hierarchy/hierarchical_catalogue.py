r"""Catalogues of discrete speeds on top of `hierarchical_bandwidth`: binaries choose one speed a dimension.

Sets        SPEEDS s of dimension j, b[j, s] GB/s.          Variables   choose[j, s] in {0, 1};  part[j, s] >= 0.

    (7) one      sum_s choose[j, s] = 1
    (8) speed    X[j] = sum_s b[j, s] choose[j, s],    x[j] = sum_s choose[j, s] / b[j, s]    (no tangents needed)

For time x cost, where the columns are tau and Z = tau X, part[j, s] = tau choose[j, s] in linear terms:

    (9) speed    Z[j] = sum_s b[j, s] part[j, s],          tau = sum_s part[j, s],
    (10) link    part[j, s] <= h choose[j, s],             h: largest tau = 1 / cost of the cheapest speeds.

Size: one binary (and one part) a speed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.sparse import block_array, csc_array

from formulations.hierarchy.hierarchical_bandwidth import Blocks, Scale
from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.parts.arrays import LpArrays
from topoopt.core.arrays import Bools, Floats


def with_catalogue(program: LpArrays, blocks: Blocks, data: BandwidthProgram, scale: Scale) -> LpArrays:
    """The arrays with columns choose (then part) and rows (7) to (10) appended, in the same scaled units."""
    chosen = [(j, speed) for j, speeds in enumerate(data.speeds) for speed in speeds]
    count, width = len(chosen), program.columns
    extra = 2 * count if data.ratio else count
    rows: list[Floats] = []
    upper: list[float] = []
    names: list[str] = []
    loaded = data.loaded

    def add(cells: list[tuple[int, float]], name: str, *, equal: float | None = 0.0) -> None:
        row = np.zeros(width + extra)
        for place, value in cells:
            row[place] += value
        rows.append(row)
        upper.append(0.0 if equal is None else equal)
        names.append(name)

    equalities = []
    most_tau = _largest_tau(data) / scale.columns[0] if data.ratio else 0.0
    for j, speeds in enumerate(data.speeds):
        if not speeds:
            continue
        mine = [(width + place, speed) for place, (own, speed) in enumerate(chosen) if own == j]
        column = j + data.shift
        unit = float(scale.columns[column])
        name = data.names[column]
        add([(place, 1.0) for place, _ in mine], f"one[{name}]", equal=1.0)
        if data.ratio:
            tau = float(scale.columns[0])
            add([(column, 1.0), *((count + p, -b * tau / unit) for p, b in mine)], f"speed[{name}]")
            add([(0, 1.0), *((count + p, -1.0) for p, _ in mine)], f"parts[{name}]")
            equalities += [True] * 3
            for place, speed in mine:
                add([(count + place, 1.0), (place, -most_tau)], f"link[{name},{speed:g}]", equal=None)
                equalities.append(False)
            continue
        add([(column, 1.0), *((p, -b / unit) for p, b in mine)], f"speed[{name}]")
        equalities += [True] * 2
        if loaded[column]:
            add([(blocks.columns[1] + column, 1.0), *((p, -unit / b) for p, b in mine)], f"reciprocal[{name}]")
            equalities.append(True)
    below = np.array(rows)
    sides = np.array(upper)
    matrix = csc_array(
        block_array([[program.matrix(), None], [csc_array(below[:, :width]), csc_array(below[:, width:])]])
    )
    labels = tuple(f"choose[{data.names[j + data.shift]},{speed:g}]" for j, speed in chosen)
    if data.ratio:
        labels += tuple(f"part[{data.names[j + data.shift]},{speed:g}]" for j, speed in chosen)
    top = np.ones(extra)
    top[count:] = np.inf
    return replace(
        program,
        cost=np.append(program.cost, np.zeros(extra)),
        lower=np.append(program.lower, np.zeros(extra)),
        upper=np.append(program.upper, top),
        row_lower=np.append(program.row_lower, np.where(equalities, sides, -np.inf)),
        row_upper=np.append(program.row_upper, sides),
        start=matrix.indptr.astype(np.int64),
        index=matrix.indices.astype(np.int64),
        value=matrix.data,
        integer=np.arange(width + extra) >= width if not data.ratio else _first(width, count, extra),
        column_names=(*(program.column_names or ()), *labels),
        row_names=(*(program.row_names or ()), *names),
    )


def _first(width: int, count: int, extra: int) -> Bools:
    place = np.arange(width + extra)
    return (place >= width) & (place < width + count)


def _largest_tau(data: BandwidthProgram) -> float:
    least = [min(speeds) if speeds else 0.0 for speeds in data.speeds]
    return 1.0 / data.cost_of(np.array(least))


def chosen_speeds(data: BandwidthProgram, choose: Floats) -> dict[int, float]:
    """Speed of each dimension with a catalogue, from the values of the binaries."""
    found, place = {}, 0
    for j, speeds in enumerate(data.speeds):
        if speeds:
            found[j] = speeds[int(np.argmax(choose[place : place + len(speeds)]))]
            place += len(speeds)
    return found
