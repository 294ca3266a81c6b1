"""Clos fabrics by name: counted, refused where ports do not add up, bounded, solved, and what their failures take."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run, write
from tests.support.paths import INSTANCES

SUPERPOD = {"servers": 128, "degree": 8, "link_gbps": 400, "radix": 64}
SMALL = {"servers": 4, "degree": 2, "link_gbps": 400, "radix": 4}


def instance(folder: Path, clos: dict[str, Any], **changes: Any) -> Path:
    """A collective on a fabric; GPUs of a server meet at 450 GB/s."""
    fabric = {"clos": clos, "server_gbytes_per_s": 450}
    head = {"schema_version": 1, "kind": "collective", "name": "on-clos", "collective": "allgather", "bytes": "1GB"}
    return write(folder, {**head, "fabric": fabric, **changes})


def refused(*words: object) -> str:
    """What a refused command says."""
    found = run(*words)
    assert found.code == 2
    return found.stdout + found.stderr


@pytest.mark.parametrize(("servers", "switches", "cables"), [(128, 48, 2048), (512, 320, 12288), (2048, 1280, 49152)])
def test_superpod_from_the_command_line(servers: int, switches: int, cables: int) -> None:
    """Switches and cables of the reference architecture, with the switches of the book and with --set radix."""
    size = ("--servers", servers, "--degree", 8, "--link-gbps", 400, "--set", "counting=devices", "--json")
    book = run("cost", *size, "--prices", "h200", "--fabrics", "rail-fat-tree").json["fabrics"]["rail-fat-tree"]
    radix = run("cost", *size, "--set", "radix=64", "--fabrics", "clos").json["fabrics"]["clos"]
    for document in (book["clos"], radix["clos"]):
        assert (document["switches"], document["cables"]) == (switches, cables)
        assert document["transceivers"] == 2 * cables
        assert document["bisection_gbps"] == servers * 8 * 400 / 2
    fibres = [row["count"] for row in radix["bill"] if row["part"] == "fibre"]
    assert len(fibres) == len(document["tiers"])


def test_fabric_of_an_instance_is_counted(tmp_path: Path) -> None:
    """`cost` takes the fabric of an instance, and no settings beside it."""
    path = instance(tmp_path, SUPERPOD)
    document = run("cost", path, "--fabrics", "clos", "--set", "counting=devices", "--json").json
    assert [tier["switches"] for tier in document["fabrics"]["clos"]["clos"]["tiers"]] == [32, 16]
    assert "not beside the fabric" in refused("cost", path, "--set", "radix=32")
    assert "missing: ports of a switch" in refused("cost", "--servers", 8, "--degree", 2, "--link-gbps", 100,
                                                    "--set", "planes=2")  # fmt: skip


def test_claim_that_does_not_add_up(tmp_path: Path) -> None:
    """The file is refused with line and both numbers, exit code 2."""
    tiers = [{"switches": 32, "down": 32, "up": 16}, {"switches": 8, "down": 32}]
    path = instance(tmp_path, {"servers": 128, "degree": 8, "link_gbps": 400, "tiers": tiers})
    for command in (("validate", path), ("solve", path), ("cost", path)):
        text = refused(*command)
        assert "fabric.clos.tiers.1" in text
        assert "= 512" in text
        assert "= 256" in text


@pytest.mark.parametrize("changes", [{"fabric": None}, {"topology": {"family": "ring", "servers": 4}}])
def test_one_network_alone(tmp_path: Path, changes: dict[str, Any]) -> None:
    """An instance has a topology or a fabric, not both and not neither."""
    assert "network" in refused("validate", instance(tmp_path, SMALL, **changes))


def test_all_gather_on_a_fabric(tmp_path: Path) -> None:
    """Four servers of 2 x 50 GB/s: six of eight parts enter each at 100 GB/s, so 1 GB takes 7.5 ms at best."""
    path = instance(tmp_path, SMALL)
    bound = run("collective", "bound", path, "--json").json
    assert bound["allgather_rate"] == pytest.approx(8 / 6 * 100)
    inline = run("collective", "bound", "clos: {servers: 4, degree: 2, link_gbps: 400, radix: 4}", "--json").json
    assert inline["allgather_rate"] == pytest.approx(8 / 7 * 50)  # a GPU has one interface alone
    solved = run("solve", path, "--output", tmp_path / "out", "--json").json
    assert solved["check"]["ok"]
    assert solved["bound"]["value"] == pytest.approx(7500)
    assert run("check", path, tmp_path / "out" / "solution.json").code == 0


def test_blast_radius(tmp_path: Path) -> None:
    """A leaf of a rail takes an eighth of 32 servers, and an AllGather runs at seven eighths; a spine a sixteenth.

    Without the network inside servers a GPU behind the failed leaf is cut off.
    """
    path = instance(tmp_path, SUPERPOD)
    table = tmp_path / "radius.csv"
    document = run("resilience", path, "--output", table, "--json").json
    leaf, spine = document["failures"]
    assert (leaf["parts"], leaf["servers"], leaf["cut_off"], leaf["kept"]) == (32, 32, 0, 0.875)
    assert leaf["slowdown"] == pytest.approx(8 / 7)
    assert (spine["parts"], spine["servers"], spine["kept"], spine["slowdown"]) == (16, 128, 0.9375, 1.0)
    assert [row["part"] for row in csv.DictReader(table.read_text().splitlines())] == ["leaf", "spine"]
    assert "takes 1.14×" in run("resilience", path).stdout.replace("\n", " ").replace("  ", " ")
    lone = instance(tmp_path, SMALL, fabric={"clos": SMALL})
    assert run("resilience", lone, "--json").json["failures"][0]["slowdown"] is None
    assert "plays no part" in refused("resilience", path, "--fail", "switch:0")
    ring = instance(tmp_path, SMALL, fabric=None, topology={"family": "ring", "servers": 4})
    assert "only a Clos fabric" in refused("resilience", ring)


@pytest.mark.parametrize(("kind", "name"), [("co-optimisation", "tiny-4"), ("llm-training", "llm-training/small-16")])
def test_kinds_without_a_clos_fabric(kind: str, name: str, tmp_path: Path) -> None:
    """Their networks are families: an instance and `--fabric clos` are refused by the kind, with what is covered."""
    text = " ".join(refused("resilience", INSTANCES / f"{name}.yaml").split())
    assert f"networks of kind {kind} are families" in text
    assert "a collective on fabric: {clos: ...}" in text
    solution = tmp_path / "solution.json"
    solution.write_text(json.dumps({"kind": f"{kind}-solution"}))
    text = " ".join(refused("resilience", solution, "--fabric", "clos").split())
    assert f"--fabric: networks of kind {kind} are families" in text


def test_planes_share_a_failure(tmp_path: Path) -> None:
    """Two planes: a leaf takes half of a port, a plane half of all, and an AllGather twice as long."""
    clos = {**SMALL, "link_gbps": 400, "planes": 2, "radix": 8}
    rows = {row["part"]: row for row in run("resilience", instance(tmp_path, clos), "--json").json["failures"]}
    assert rows["leaf"]["kept"] == 0.75
    assert rows["plane"]["slowdown"] == pytest.approx(2.0)
