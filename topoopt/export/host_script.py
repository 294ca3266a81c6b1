"""Scripts for hosts: quoted commands between a head and a tail that never change."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from importlib.resources import files

from topoopt.core.host_rates import HostRates
from topoopt.export.host_routing import TABLE, HostTraffic

Command = list[str]


def line(command: Iterable[str]) -> str:
    """One command of a script, every word quoted where the shell needs it."""
    return f"  {shlex.join(command)}"


def burst_bytes(rate_bps: int) -> int:
    """What may be sent at once: 2 ms of the rate, two full frames at least."""
    return max(3028, rate_bps // 4000)


def ceiling_bps(share_bps: int, link_bps: int, strict: bool) -> int:
    """Most a class may use: what others leave of the link, or its share alone."""
    return share_bps if strict else link_bps


def script(
    rendering: str, rates: HostRates, traffic: HostTraffic, tools: str, checks: list[Command], commands: list[Command]
) -> bytes:
    """A whole script.

    Args:
        rendering: `ovs` or `tc`, the part of the head.
        tools: programs it needs, by name.
        checks: what must hold before anything is changed.
        commands: what applies the rates.
    """
    folder = files("topoopt.export")
    head, part = (folder.joinpath(name).read_text() for name in ("host_script.sh", f"host_script_{rendering}.sh"))
    host = rates.hosts[traffic.host]
    about = [
        "#!/usr/bin/env bash",
        f"# Bandwidth shares and routes of host {host.name} ({rendering}), written by topoopt export.",
        "# Usage: bash THIS [dry-run|apply|teardown]; without a word it prints what it would do.",
        "set -Eeuo pipefail",
    ]
    tables = [["own_table", str(TABLE + number)] for number in range(len(host.links) + 1)]
    before = [line(["need", *tools.split()]), *(line(check) for check in (*tables, *checks))]
    parts = [
        "\n".join(about),
        head.strip(),
        part.strip(),
        "preflight() {\n" + "\n".join(before) + "\n}",
        "apply_host() {\n" + "\n".join(line(command) for command in commands) + "\n}",
        "main",
    ]
    return ("\n\n".join(parts) + "\n").encode()


def run_all(commands: Iterable[Command]) -> list[Command]:
    """Commands that a dry run prints."""
    return [["run", *command] for command in commands]
