"""The ways of one block through the network: the tree it is summed along, and the one it is copied along."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Ints
from topoopt.core.collective_solution import CollectiveSolution
from topoopt.drawing.layout import SIZE
from topoopt.drawing.svg import element, joined, picture

MOST_LEVELS = 40
MOST_MESSAGES = 400
ROW = 58.0
LABELLED = 32
"""Leaves of a tree up to which nodes carry their numbers."""

Place = tuple[float, float]


def block_picture(solution: CollectiveSolution) -> Markup:
    """The first block: a row a step; children stand under (of sums: over) the node that they are joined to.

    Empty where there is too much to draw.
    """
    sends = solution.schedule.sends
    own = np.flatnonzero(sends.block == (sends.block[0] if len(sends) else 0))
    steps = sorted(set(sends.step[own].tolist()))
    if not 0 < len(steps) <= MOST_LEVELS or len(own) > MOST_MESSAGES:
        return Markup("")
    owner = int(solution.schedule.blocks.owner[sends.block[own[0]]])
    level = {step: place for place, step in enumerate(steps)}
    up, down = own[sends.reduce[own]], own[~sends.reduce[own]]
    turn = max((level[int(step)] for step in sends.step[up]), default=-1) + 1
    rising = {int(sends.tail[k]): (int(sends.head[k]), level[int(sends.step[k])]) for k in up.tolist()}
    falling: dict[int, tuple[int, int]] = {}
    for k in down.tolist():
        falling.setdefault(int(sends.head[k]), (int(sends.tail[k]), level[int(sends.step[k])] + 1))
    trees = {part: laid_out(owner, turn, tree) for part, tree in (("up", rising), ("down", falling)) if tree}
    for tree in trees.values():
        tree[owner] = (SIZE / 2, tree[owner][1])
    leaves = max(len(own) - len({of for of, _ in part.values()}) for part in (rising, falling))
    return _drawn(solution, own, trees, height=ROW * len(steps) + 40, labelled=leaves <= LABELLED)


def laid_out(owner: int, row: int, joined_to: dict[int, tuple[int, int]]) -> dict[int, Place]:
    """Where the nodes of a tree stand: leaves side by side, others over the middle of their children.

    Args:
        owner: the root, and the row it stands in.
        joined_to: of every other node, which one it is joined to, and its row.
    """
    children: dict[int, list[int]] = {}
    for node, (other, _) in sorted(joined_to.items(), key=lambda one: (one[1][1], one[0])):
        children.setdefault(other, []).append(node)
    order, waiting = [], [owner]
    while waiting:
        order.append(waiting.pop())
        waiting += children.get(order[-1], [])[::-1]
    slots = {node: place for place, node in enumerate(node for node in order if node not in children)}
    across: dict[int, float] = {node: (place + 0.5) * SIZE / len(slots) for node, place in slots.items()}
    for node in reversed(order):
        if node in children:
            across[node] = sum(across[child] for child in children[node]) / len(children[node])
    return {node: (across[node], 20 + ROW * (row if node == owner else joined_to[node][1])) for node in order}


def _drawn(
    solution: CollectiveSolution, own: Ints, trees: dict[str, dict[int, Place]], *, height: float, labelled: bool
) -> Markup:
    network, sends = solution.network, solution.schedule.sends
    lines = []
    for k in own.tolist():
        tree = trees["up" if sends.reduce[k] else "down"]
        tail, head = int(sends.tail[k]), int(sends.head[k])
        if tail in tree and head in tree:
            tip = element("title", f"step {sends.step[k]}: {network.names[tail]} → {network.names[head]}")
            (x1, y1), (x2, y2) = tree[tail], tree[head]
            lines.append(element("line", tip, x1=x1, y1=y1, x2=x2, y2=y2, class_="way"))
    places = sorted({(node, at) for tree in trees.values() for node, at in tree.items()})
    radius = 9.0 if labelled else 4.0
    dots = [element("circle", element("title", network.names[node]), cx=x, cy=y, r=radius) for node, (x, y) in places]
    labels = [
        element("text", str(node), x=x, y=y + 3.5, text_anchor="middle", class_="tiny") for node, (x, y) in places
    ]
    return picture(
        joined(lines),
        element("g", joined(dots), class_="nodes"),
        joined(labels if labelled else []),
        label="Ways of the first block",
        viewBox=f"0 0 {SIZE:.0f} {height:.0f}",
        class_="tree",
    )
