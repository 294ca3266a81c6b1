"""`topoopt methods` and `topoopt --version`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import topoopt
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES, ROOT
from topoopt.kinds import KINDS

FILES = {
    "co-optimisation": ("tiny-4.yaml",),
    "topology": ("networks/uniform-5-2.yaml", "networks/hot-experts-8.yaml"),
    "routing": ("networks/torus-3x3x3.yaml",),
    "allocation": ("networks/guarantees-6.yaml",),
    "hierarchical-bandwidth": ("hierarchical/gpt3-3d.yaml",),
    "placement": ("placement/branches-3.yaml", "published/latency-gnmt-inference.json"),
    "shared-cluster": ("shared/trace-16.yaml", "shared/mix-432.yaml"),
    "collective": ("collectives/ring-5.yaml",),
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind in FILES])
def test_methods_of_a_kind_are_those_of_its_instances(kind: str) -> None:
    """What the library offers for an instance stands in one of the tables of its kind; every table begins with auto."""
    groups = run("describe", kind, "--json").json["groups"]
    tables = [{line["name"]: line["summary"] for line in group["methods"]} for group in groups]
    assert all(next(iter(table)) == "auto" for table in tables)
    assert len(groups) == 1 or all(group["problems"] for group in groups)
    for file in FILES[kind]:
        assert topoopt.methods(topoopt.read_instance(INSTANCES / file)) in tables


def test_methods_for_an_instance_say_what_they_do_not_cover(tmp_path: Path) -> None:
    """All assignments are for few devices; on the three of the file nothing is left out."""
    text = (INSTANCES / "placement/towers-3.yaml").read_text()
    line = next(line for line in text.splitlines(keepends=True) if line.startswith("- {name: server2"))
    more = "".join(line.replace("server2", f"server{k}").replace("gpu2", f"gpu{k}") for k in range(3, 9))
    for added, expected in (("", set()), (more, {"assignments"})):
        file = tmp_path / "towers-3.yaml"
        file.write_text(text.replace(line, line + added))
        (group,) = run("describe", file, "--json").json["groups"]
        assert group["problems"] == "towers-3 (placement)"
        assert {line["name"] for line in group["methods"] if "not_covered" in line} == expected
        shown = run("describe", file)
        assert shown.code == 0
        assert all(line["name"] in shown.stdout for line in group["methods"])
        assert shown.stdout.count("not covered: ") == len(expected)


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ("", set()),
        ("max_hops: 3\n", {"orbits", "frank-wolfe", "softmin"}),
        ("max_hops: 26\n", set()),  # as good as none
    ],
)
def test_routing_methods_that_do_not_cover_a_torus(tmp_path: Path, added: str, expected: set[str]) -> None:
    """A torus looks the same from all its servers; few methods know limits of hops."""
    file = tmp_path / "torus-3x3x3.yaml"
    file.write_text((INSTANCES / "networks/torus-3x3x3.yaml").read_text() + added)
    (group,) = run("describe", file, "--json").json["groups"]
    assert {line["name"] for line in group["methods"] if "not_covered" in line} == expected
    refused = run("solve", file, "--method", "cayley", "--output", tmp_path / "out", "--json")
    assert refused.code == 2
    assert not (tmp_path / "out").exists()


def test_an_unknown_kind_is_refused() -> None:
    """With what is allowed, exit code 2."""
    refused = run("describe", "nonsense", "--json")
    assert refused.code == 2
    assert "topology" in refused.json["problems"][0]["allowed"]


def test_version() -> None:
    """The version of the distribution, and nothing else."""
    told = run("--version")
    version = tomllib.loads(Path(ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (told.code, told.stdout) == (0, f"topoopt {version}\n")
