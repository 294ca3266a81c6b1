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

import numpy as np

from formulations.hierarchy.hierarchical_bandwidth import Blocks, Scale
from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats


def with_catalogue(program: LpArrays, blocks: Blocks, data: BandwidthProgram, scale: Scale) -> LpArrays:
    """The arrays with columns choose (then part) and rows (7) to (10) appended, in the same scaled units."""
    labels = [[f"[{data.names[j + data.shift]},{b:g}]" for b in speeds] for j, speeds in enumerate(data.speeds)]
    flat = [label for own in labels for label in own]
    made = Families.extending(program)
    choose = made.columns(len(flat), upper=1.0, integer=True, names=[f"choose{label}" for label in flat])
    part = made.columns(len(flat) * data.ratio, names=[f"part{label}" for label in flat * data.ratio])
    place = np.cumsum([0, *(len(own) for own in labels)])
    tau = float(scale.columns[0])
    for j, speeds in enumerate(data.speeds):
        if not speeds:
            continue
        mine, b = slice(place[j], place[j + 1]), np.array(speeds)
        column = j + data.shift
        unit, name = float(scale.columns[column]), data.names[column]
        made.terms(made.rows(1, 1.0, 1.0, [f"one[{name}]"]), choose[mine], 1.0)
        speed = made.rows(1, 0.0, 0.0, [f"speed[{name}]"])
        made.terms(speed, column, 1.0)
        if not data.ratio:
            made.terms(speed, choose[mine], -b / unit)
            if data.loaded[column]:
                reciprocal = made.rows(1, 0.0, 0.0, [f"reciprocal[{name}]"])
                made.terms(reciprocal, blocks.columns[1] + column, 1.0)
                made.terms(reciprocal, choose[mine], -unit / b)
            continue
        made.terms(speed, part[mine], -b * tau / unit)
        parts = made.rows(1, 0.0, 0.0, [f"parts[{name}]"])
        made.terms(parts, 0, 1.0)
        made.terms(parts, part[mine], -1.0)
        link = made.rows(len(b), -np.inf, 0.0, [f"link{label}" for label in labels[j]])
        made.terms(link, part[mine], 1.0)
        made.terms(link, choose[mine], -_largest_tau(data) / tau)
    return made.arrays()


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
