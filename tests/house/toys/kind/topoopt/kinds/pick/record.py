"""The kind `pick`."""

from __future__ import annotations

from topoopt.kinds.pick.files import PickFile, read_pick
from topoopt.verify.pick.check import check_pick

from topoopt.kinds.kind import Kind, KindFiles, Pages, at_any_depth, at_first_use


def _pages() -> Pages:
    return Pages(
        report=lambda solution: f"<!doctype html><p>{sorted(solution.picked)}</p>",
        figures=lambda _, solution: {"picked": list(solution.picked)},
        show=lambda console, solution, _: console.print(f"picked {sorted(solution.picked)}"),
        answer=lambda solution: f"The best choice is worth {solution.objective.value:g}.",
    )


RECORDS = (
    Kind(
        name="pick",
        files=KindFiles(PickFile, read_pick, "topoopt.kinds.pick.files"),
        check=at_any_depth(check_pick),
        solver=at_first_use("topoopt.kinds.pick.solve", "SOLVER"),
        pages=_pages,
        maximise=lambda _: True,
    ),
)
