"""Heat maps of a study: a matrix that one run gives, an element a column of the table of results."""

from __future__ import annotations

import re

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.drawing.format import byte_size, counted
from topoopt.drawing.heat_map import LINEAR, LOGARITHMIC, heat_map
from topoopt.studies.figure_parts import Drawing, Material, no_values, title_of
from topoopt.studies.report_data import Row, number_of


def heat(material: Material) -> Drawing:
    """Bytes from row to column, whose numbers are what two stars stand for, of the first run that has any; columns that
    are missing are 0. On a logarithmic scale with `log_y`."""
    figure = material.figure
    pattern = figure.columns[0] if figure.columns else "*.*"
    text = f"{pattern.partition('*')[0].strip('.')} from row to column"
    found = [matrix for row in material.rows if (matrix := matrix_of(row, pattern)) is not None]
    if not found:
        return no_values(material, text)
    matrix, title = found[0], title_of(figure, text)
    note = (
        f"{byte_size(float(matrix.sum()))} between {counted(int(np.count_nonzero(matrix)), 'ordered pair')}, "
        f"{byte_size(float(matrix.max()))} at most."
    )
    if len(found) > 1:
        note += f" The first of {counted(len(found), 'run')}."
    picture = heat_map(matrix, title, scales=(LOGARITHMIC if figure.log_y else LINEAR,))
    return Drawing(title, picture, Markup(""), note)


def matrix_of(row: Row, pattern: str) -> Floats | None:
    """float64[n, n] of the columns of a row that a pattern with two stars names; None without a positive element."""
    parts = [re.escape(part) for part in pattern.split("*")]
    if len(parts) != 3:
        return None
    shape = re.compile(parts[0] + "([0-9]{1,3})" + parts[1] + "([0-9]{1,3})" + parts[2])
    cells = {}
    for name in row:
        place, value = shape.fullmatch(name), number_of(row, name)
        if place and value is not None and value > 0:
            cells[int(place[1]), int(place[2])] = value
    if not cells:
        return None
    n = 1 + max(max(cell) for cell in cells)
    matrix = np.zeros((n, n))
    for cell, value in cells.items():
        matrix[cell] = value
    return matrix
