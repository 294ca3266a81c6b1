"""Scripts for hosts: quoted commands between a head and a tail that never change."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from importlib.resources import files

from topoopt.core.cluster import Host
from topoopt.formats.hosts.policy_routing import TABLE

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
    rendering: str,
    host: str,
    about: str,
    tools: str,
    tables: Iterable[int],
    checks: list[Command],
    commands: list[Command],
) -> bytes:
    """A whole script.

    Args:
        rendering: the part of the head, `host_script_RENDERING.sh`.
        host: its name.
        about: what it sets, in a few words.
        tools: programs it needs, by name.
        tables: routing tables that must be its own.
        checks: what else must hold before anything is changed.
        commands: what applies the settings.
    """
    folder = files("topoopt.formats.hosts")
    head, part = (folder.joinpath(name).read_text() for name in ("host_script.sh", f"host_script_{rendering}.sh"))
    first = [
        "#!/usr/bin/env bash",
        f"# {about} of host {host} ({rendering}), written by topoopt export.",
        "# Usage: bash THIS [dry-run|apply|teardown]; without a word it prints what it would do.",
        "set -Eeuo pipefail",
    ]
    owned = [["own_table", str(table)] for table in tables]
    before = [line(["need", *tools.split()]), *(line(check) for check in (*owned, *checks))]
    parts = [
        "\n".join(first),
        head.strip(),
        part.strip(),
        "preflight() {\n" + "\n".join(before) + "\n}",
        "apply_host() {\n" + "\n".join(line(command) for command in commands) + "\n}",
        "main",
    ]
    return ("\n\n".join(parts) + "\n").encode()


def shares_script(rendering: str, host: Host, tools: str, checks: list[Command], commands: list[Command]) -> bytes:
    """Script of the bandwidth shares and routes of a host."""
    tables = range(TABLE, TABLE + len(host.links) + 1)
    return script(rendering, host.name, "Bandwidth shares and routes", tools, tables, checks, commands)


def run_all(commands: Iterable[Command]) -> list[Command]:
    """Commands that a dry run prints."""
    return [["run", *command] for command in commands]
