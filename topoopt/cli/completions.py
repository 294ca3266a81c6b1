"""What the shell offers for words of the command line; files it completes by itself."""

from __future__ import annotations

from collections.abc import Iterable


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def complete_kind(incomplete: str) -> list[str]:
    """Kinds of problems that are solved."""
    from topoopt.kinds import KINDS

    return _beginning(KINDS, incomplete)


def complete_template(incomplete: str) -> list[str]:
    """Kinds of instance files."""
    from topoopt.kinds import TEMPLATES

    return _beginning(TEMPLATES, incomplete)


def complete_example(incomplete: str) -> list[str]:
    """Names of shipped instances."""
    from topoopt.files.untrusted import shipped_files

    return _beginning((file.name for file in shipped_files()), incomplete)


def complete_target(incomplete: str) -> list[str]:
    """Formats that solutions are exported to."""
    from topoopt.formats.table import EXPORTERS

    return _beginning(EXPORTERS, incomplete)


def complete_formulation(incomplete: str) -> list[str]:
    """Formulations that can be written."""
    from formulations.table import FORMULATIONS

    return _beginning(FORMULATIONS, incomplete)


def complete_solver(incomplete: str) -> list[str]:
    """Solvers by name, whether they are found or not."""
    from solvers.backends.table import FOREIGN, SOLVERS

    return _beginning((*SOLVERS, *FOREIGN), incomplete)
