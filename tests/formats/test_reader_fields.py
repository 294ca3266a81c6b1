"""Tables of fields tell the truth: nothing is dropped without a word, and what is used changes what is read."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support.all_reader_cases import CASES
from tests.support.pair_cases import PAIR_CASES
from tests.support.reader_cases import changed
from topoopt.core.errors import InputError
from topoopt.formats.schedules import SCHEDULES
from topoopt.formats.table import IMPORTERS, READERS

STRANGE = "never_heard_of"
OTHERS = {"Chakra: traces of a job", "ASTRA-sim: custom collective (Chakra)", "FlexNet: task graph", "LIBRA: workload"}
"""Those that are no documents: see below."""


FORMATS = {
    "flexnet": {"FlexNet: measured profile", "FlexNet: task graph"},
    "chakra": {"Chakra: traces of a job", "Chakra: process groups", "ASTRA-sim: custom collective (Chakra)"},
    "astrasim-network": {"ASTRA-sim: analytical network", "ns-3: topology text"},
    "infragraph": {"InfraGraph: infrastructure"},
    "nccl-topology": {"NCCL: topology"},
    "repetita": {"REPETITA: network and demands"},
    "sndlib": {"SNDlib: network"},
    "topology-zoo": {"Topology Zoo: network"},
    "astrasim-collective": {"ASTRA-sim: custom collective (Chakra)"},
    "libra": {"LIBRA: communicator", "LIBRA: cost model", "LIBRA: network", "LIBRA: workload"},
    "dnn-partitioning": {"dnn-partitioning: graph", "dnn-partitioning: split of an expert"},
    "msccl": {"MSCCL: algorithm"},
    "mscclpp": {"MSCCL++: execution plan"},
    "sccl": {"SCCL: algorithm, imported", "SCCL: algorithm, audited", "SCCL: topology"},
    "teccl": {"TE-CCL: input", "TE-CCL: schedule"},
    "forestcoll": {"ForestColl: trees"},
}
"""Formats of imports and audits, and the tables of their files."""


def test_every_format_has_a_table() -> None:
    """What is imported or audited."""
    assert set(FORMATS) == {*IMPORTERS, *SCHEDULES}
    assert set.union(*FORMATS.values()) <= set(READERS)


def test_every_reader_has_a_case() -> None:
    """And every row says one of three words."""
    assert set(READERS) == set(CASES) | set(PAIR_CASES) | OTHERS
    for table in READERS.values():
        assert {use for use, _ in table.values()} <= {"used", "noted", "refused"}
        assert all(meaning for _, meaning in table.values())


def _with_strange(content: Any) -> Iterator[tuple[str, Any]]:
    """Content with a field that nobody knows in one of its mappings or elements, and where."""
    count = sum(1 for _ in _levels(content))
    for number in range(count):
        made = copy.deepcopy(content)
        name, level = list(_levels(made))[number]
        if isinstance(level, ElementTree.Element):
            level.set(STRANGE, "7")
            yield f"{name} attribute", made
            made = copy.deepcopy(content)
            ElementTree.SubElement(list(_levels(made))[number][1], STRANGE)
            yield f"{name} element", made
        else:
            level[STRANGE] = 7
            yield name, made


def _levels(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, ElementTree.Element):
        yield name, content
        for child in content:
            yield from _levels(child, f"{name}.{child.tag}[]".lstrip("."))
    elif isinstance(content, dict):
        yield name, content
        for key, inner in content.items():
            yield from _levels(inner, f"{name}.{key}".lstrip("."))
    elif isinstance(content, list):
        for inner in content:
            yield from _levels(inner, f"{name}[]")


@pytest.mark.parametrize("reader", CASES)
def test_what_is_not_known_is_named(reader: str, tmp_path: Path) -> None:
    """A field of a name that nobody knows, at every level: an error or a note names it, or the whole part it is in."""
    case, table = CASES[reader], READERS[reader]
    for where, content in _with_strange(case.content):
        outcome = case.outcome(content, tmp_path)
        said = str(outcome) if isinstance(outcome, InputError) else "\n".join(outcome[1])
        within = [
            name for name, (use, _) in table.items() if use == "noted" and where.startswith(name) and name in said
        ]
        assert STRANGE in said or within, (where, said)


@pytest.mark.parametrize("reader", CASES)
def test_what_is_used_changes_what_is_read(reader: str, tmp_path: Path) -> None:
    """Every used field has another value that is read as something else, or refused as it must agree with the rest."""
    case = CASES[reader]
    used = {name for name, (use, _) in READERS[reader].items() if use == "used"}
    assert used == set(case.others)
    base = case.outcome(case.content, tmp_path)
    assert not isinstance(base, InputError), base
    for name, change in case.others.items():
        other = case.outcome(changed(case.content, change), tmp_path)
        if name in case.checked:
            assert isinstance(other, InputError), name
        else:
            assert not isinstance(other, InputError), (name, str(other))
            assert other[0] != base[0], name


@pytest.mark.parametrize("reader", CASES)
def test_what_is_noted_is_named(reader: str, tmp_path: Path) -> None:
    """Of the noted fields that the case has."""
    case = CASES[reader]
    outcome = case.outcome(case.content, tmp_path)
    assert not isinstance(outcome, InputError)
    said = "\n".join(outcome[1])
    noted = [name for name, (use, _) in READERS[reader].items() if use == "noted" and "any other" not in name]
    present = [name for name in noted if _has(case.content, name)]
    latency = {"latency[]": "latencies", "*.Npu": "Npu"}
    assert [name for name in present if latency.get(name, name) not in said] == []


def _has(content: Any, field: str) -> bool:
    """Whether a field is in the content, at its own level."""
    where, _, key = field.removesuffix("[]").rpartition(".")
    keys = [
        level.attrib if isinstance(level, ElementTree.Element) else level
        for name, level in _levels(content)
        if name == where
    ]
    return any(key.removeprefix("@") in one for one in keys)
