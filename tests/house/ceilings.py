"""How large each package may be, so that the tree does not grow unseen.

A ceiling is what stands. A change that makes a package smaller lowers it; one that raises it says why in a comment
beside the row. `python -m tests.house.ceilings` prints the table as it stands.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.house.tree import Tree, read_tree


class Size(NamedTuple):
    """Lines, modules and classes of a package."""

    lines: int
    modules: int
    classes: int


CEILINGS: dict[str, Size] = {
    "formulations": Size(6693, 15, 47),
    "solvers": Size(32204, 91, 180),  # products of circulants; orders annealed
    "topoopt.analyses": Size(8944, 25, 35),
    "topoopt.cli": Size(2866, 10, 4),
    "topoopt.core": Size(11009, 27, 287),
    "topoopt.costs": Size(768, 1, 7),
    "topoopt.files": Size(5584, 15, 56),
    "topoopt.formats": Size(15138, 31, 78),
    "topoopt.kinds": Size(22174, 67, 126),
    "topoopt.library": Size(1288, 5, 6),
    "topoopt.native": Size(141, 2, 0),
    "topoopt.page": Size(3262, 9, 19),
    "topoopt.simulate": Size(8824, 21, 63),
    "topoopt.studies": Size(2850, 10, 14),
    "topoopt.verify": Size(20932, 46, 83),
    "topoopt.workloads": Size(3177, 9, 24),
}


SOURCES = Size(11518, 66, 91)  # orders of placements annealed, swaps drawn by demand, blocks by pairs of links
"""The same of the C++ of the native module: lines, files, and the structs and classes that a line begins with."""


def native_size(root: Path) -> Size:
    """What stands of the C++."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((root / "topoopt/native/src").iterdir())]
    lines = [line for text in texts for line in text.splitlines()]
    return Size(len(lines), len(texts), sum(line.startswith(("struct ", "class ")) for line in lines))


def sizes(tree: Tree) -> dict[str, Size]:
    """What stands, by package: the folders of `topoopt`, and the two beside it; without `topoopt/__init__.py`."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for module in tree.values():
        top, *rest = module.file.parts
        package = f"{top}.{rest[0]}" if top == "topoopt" else top
        if len(rest) == 1 and top == "topoopt":
            continue
        classes = sum(isinstance(node, ast.ClassDef) for node in module.nodes)
        for place, amount in enumerate((len(module.text.splitlines()), 1, classes)):
            found[package][place] += amount
    return {package: Size(*amounts) for package, amounts in sorted(found.items())}


if __name__ == "__main__":
    ROOT = Path(__file__).parents[2]
    print(f"SOURCES = {native_size(ROOT)}")
    for name, size in sizes(read_tree(ROOT)).items():
        print(f'    "{name}": Size({size.lines}, {size.modules}, {size.classes}),')
