"""Networks of collectives in files: parallel links, latencies, defaults, rates by name; values by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kinds.collective.test_collective import instance
from tests.support.chakra_files import shared
from tests.support.cli_cases import run
from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve

TWO = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="m" for="edge" attr.name="multiplicity" attr.type="int"><default>4</default></key>
<key id="r" for="edge" attr.name="rate" attr.type="double"/>
<key id="l" for="edge" attr.name="latency_ns" attr.type="double">{latency}</key>
<key id="role" for="node" attr.name="role" attr.type="string"><default>switch</default></key>
<graph edgedefault="undirected">
<node id="sw"/><node id="a"><data key="role">rank</data></node><node id="b"><data key="role">rank</data></node>
<edge source="a" target="sw"><data key="r">25</data><data key="l">500</data></edge>
<edge source="b" target="sw"><data key="r">25</data></edge></graph></graphml>"""


def of_file(folder: Path, content: str, name: str = "net.graphml", **changes: Any) -> Any:
    (folder / name).write_text(content)
    latency = {"link": 0.0, "message": 0.0}
    topology = {"file": name, **changes.pop("topology", {})}
    return read_instance(
        instance(
            folder, **{"topology": topology, "latency_us": latency, "bytes": 10**6, "collective": "allgather"} | changes
        )
    )


def test_parallel_links_latencies_and_defaults(tmp_path: Path) -> None:
    """Half of 1 MB crosses 4 x 25 GB/s in 5 us, after links of 0.5 and 1.5 us."""
    problem = of_file(tmp_path, TWO.format(latency="<default>1500</default>"))
    assert problem.network.is_switch.tolist() == [True, False, False]
    assert problem.network.gbytes_per_s.tolist() == [100.0] * 4
    assert sorted(problem.network.latency_us.tolist()) == [0.5, 0.5, 1.5, 1.5]
    solution = solve(problem)
    assert solution.check.ok, solution.check.violations
    assert solution.figures.time_us == pytest.approx(5 + 2)


def test_a_link_without_a_latency(tmp_path: Path) -> None:
    """Refused by name, unless the instance says what links have."""
    with pytest.raises(InputError, match="the link b -> sw has no proper latency_ns"):
        of_file(tmp_path, TWO.format(latency=""))
    problem = of_file(tmp_path, TWO.format(latency=""), latency_us={"link": 2.0, "message": 0.0})
    assert sorted(problem.network.latency_us.tolist()) == [0.5, 0.5, 2.0, 2.0]
    assert problem.sha256 != of_file(tmp_path, TWO.format(latency="<default>0</default>")).sha256


def test_rates_by_name_and_by_attribute(tmp_path: Path) -> None:
    """Gbit/s by the name; GB/s where the attribute is named and its unit is not known."""
    ring = "source,target,{}\na,b,80\nb,a,80\n"
    assert of_file(tmp_path, ring.format("bandwidth_gbps"), "n.csv").network.gbytes_per_s.tolist() == [10, 10]
    problem = of_file(tmp_path, ring.format("bw"), "n.csv", topology={"rate_attribute": "bw"})
    assert problem.network.gbytes_per_s.tolist() == [80, 80]
    assert "rates of links are 'bw' of n.csv" in problem.notes
    with pytest.raises(InputError, match="links without a rate"):
        of_file(tmp_path, ring.format("bw"), "n.csv")
    found = run("collective", "bound", tmp_path / "n.csv", "--set", "rate_attribute=bw", "--json")
    assert found.json["allgather_rate"] == pytest.approx(160)
    assert found.json["notes"] == ["rates of links are 'bw' of n.csv"]
    wrong = run("collective", "bound", "preset: dgx-a100", "--set", "rate_attribute=bw")
    assert wrong.code == 2
    assert "rate_attribute" in wrong.stderr


@pytest.mark.parametrize(
    ("name", "gbytes_per_s"),
    [("topo_8p_90a", 1200 / 7), ("topo_8p6l", 2400 / 7), ("topo_8p1h", 1000 / 3), ("topo_8p_940", 400)],
)
def test_published_machines(name: str, gbytes_per_s: float) -> None:
    """The best AllGather, by enumeration of all cuts."""
    file = shared(f"public_cases/26-amd-topologies/{name}.csv")
    found = run("collective", "bound", file, "--collective", "allgather", "--json").json
    assert found["allgather_rate"] == pytest.approx(gbytes_per_s)
