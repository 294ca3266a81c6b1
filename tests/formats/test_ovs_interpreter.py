"""The interpreter of scripts for hosts: it finds what was changed in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.host_cases import worked_example
from tests.support.read_back.exports import check_export
from topoopt.core.errors import CheckError
from topoopt.formats.forwarding import build_ovs
from topoopt.formats.table import Export, ExportOptions


def changed(name: str, change: Callable[[str], str]) -> Export:
    """The worked example with one script changed."""
    export = build_ovs(worked_example(), ExportOptions())
    files = tuple((file, change(data.decode()).encode() if file == name else data) for file, data in export.files)
    assert files != export.files
    return replace(export, files=files)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("B.ovs.sh", "min-rate=3000000000", "min-rate=3000000001", "something else"),
        ("B.tc.sh", "rate 3000000000bit", "rate 2999999999bit", "something else"),
        ("B.ovs.sh", "min-rate=3000000000", "min-rate=3000000000.5", "not a whole number"),
        ("B.ovs.sh", "min-rate=3000000000", "min-rate=3e9", "not a whole number"),
        ("B.ovs.sh", "min-rate=3000000000", "min-rate=9995000000", "promises 10005000000 of 10000000000"),
        ("A.ovs.sh", "type=linux-htb other_config:max-rate=10000000000", "type=linux-htb", "not understood"),
        ("C.ovs.sh", "other_config:min-rate=2000000000", "other_config:min-rate=9000000000", "promises"),
        ("A.ovs.sh", "set_queue:3", "set_queue:2", "two"),
        ("A.ovs.sh", "nw_dst=10.1.0.3", "nw_dst=10.1.0.9", "no host"),
        ("A.ovs.sh", "priority=200,ip", "priority=100,ip", "flow"),
        ("A.ovs.sh", "weight 2", "weight 9", "weights"),
        ("A.ovs.sh", "from 10.1.0.1 lookup 7101", "from 10.1.0.1 lookup 7102", "not understood"),
        ("A.ovs.sh", "via 10.1.0.3 dev br-eth1", "via 10.2.0.3 dev br-eth2", "a rate without a route"),
        ("A.tc.sh", "flowid 7106:3", "flowid 7106:4", "two"),
        ("A.tc.sh", "classid 7106:4", "classid 7106:9", "has no queue"),
        ("A.tc.sh", "run ip link set eth1 up", "run ip link set eth1 up; touch HIT", "not one plain command"),
        ("A.tc.sh", "run ip link set eth1 up", "run touch HIT", "program touch"),
        ("A.tc.sh", "run ip link set eth1 up", "touch HIT", "verb touch"),
        ("A.tc.sh", "address 10.200.0.1/32 lo", "address 10.200.0.2/32 lo", "not understood"),
        ("A.tc.sh", "apply_host() {", "apply_nothing() {", "no list of commands"),
    ],
)
def test_changes_are_found(name: str, old: str, new: str, message: str) -> None:
    """A rate, a queue, a route or a command that was changed does not pass."""
    with pytest.raises(CheckError, match=message):
        check_export("ovs", changed(name, lambda script: script.replace(old, new)))


def test_incast_is_found() -> None:
    """A script that promises more than the receiving link takes in is refused, though its own link has room."""
    old, new = "rate 3000000000bit", "rate 9000000000bit"
    export = changed("B.tc.sh", lambda script: script.replace(old, new))
    with pytest.raises(CheckError, match=r"A: eth1 is promised 11000000000 of 10000000000"):
        check_export("ovs", export)


@pytest.mark.parametrize("file", ["A.ovs.sh", "C.tc.sh"])
def test_missing_scripts_are_found(file: str) -> None:
    """All hosts must be there."""
    export = build_ovs(worked_example(), ExportOptions())
    with pytest.raises(CheckError, match="no host"):
        check_export("ovs", replace(export, files=tuple(one for one in export.files if one[0] != file)))
