"""HTML report of a placement."""

from topoopt.core.placement_solution import PlacementSolution


def render_placement(solution: PlacementSolution) -> str:
    """Self-contained HTML."""
    return f"<html>{solution.name}</html>"
