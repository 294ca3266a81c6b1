"""What no box of a proof needs: it would only make a check longer, until the proof is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from topoopt.core.dag_topology_solution import PathMean, Split, StepPath


def padding(
    trees: Mapping[str, Sequence[Split]], paths: Sequence[StepPath], means: Sequence[PathMean]
) -> Iterator[str]:
    """Each thing that is too much, in words.

    Args:
        trees: all that refer to these paths and means, by name.
    """
    used = set[int]()
    for name, tree in trees.items():
        closed = [count for pair, count in tree if pair < 0]
        if len(tree) != max(2 * len(closed) - 1, 0):
            yield f"{name} closes {len(closed)} boxes of {len(tree)}, which is no tree"
        used.update(count - 1 for count in closed if count > 0)
    for number, mean in enumerate(means):
        if number not in used:
            yield f"mean {number} closes no box"
        if len({path for path, _ in mean.weights}) < len(mean.weights):
            yield f"mean {number} has a path twice"
    weighted = {path for mean in means for path, _ in mean.weights}
    for number in set(range(len(paths))) - weighted:
        yield f"path {number} is in no mean"
    if len(set(paths)) < len(paths) or len(set(means)) < len(means):
        yield "a path or a mean stands twice"
