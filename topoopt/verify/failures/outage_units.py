"""How many whole copies of a model servers that are up make on each day, counted server by server."""

from __future__ import annotations

from topoopt.core.arrays import Bools


def copies_up(down: Bools, copies: int, servers_each: int, *, circuits: bool) -> list[int]:
    """Of each day.

    Args:
        down: bool[days, servers]; those of the copies come first, spare ones last.
        copies: of the plan.
        servers_each: of a copy.
        circuits: any servers make a copy; else each copy needs its own.
    """
    found = []
    for day in down.tolist():
        if circuits:
            up = sum(not one for one in day)
            found.append(min(copies, up // servers_each))
            continue
        whole = 0
        for copy in range(copies):
            whole += not any(day[copy * servers_each : (copy + 1) * servers_each])
        found.append(whole)
    return found


def servers_exchanged(down: Bools, up: list[int], servers_each: int) -> int:
    """Servers that copies get in place of others, the first day left out; those in use stay while they are up.

    Args:
        down: bool[days, servers].
        up: copies, by day.
        servers_each: of a copy.
    """
    total = 0
    used: set[int] = set()
    for day, (row, copies) in enumerate(zip(down.tolist(), up, strict=True)):
        working = [server for server, one in enumerate(row) if not one]
        kept = [server for server in working if server in used][: copies * servers_each]
        others = [server for server in working if server not in used]
        added = others[: copies * servers_each - len(kept)]
        total += len(added) if day else 0
        used = {*kept, *added}
    return total
