"""Scripts for hosts hold no word of a user's as a command, and their dry runs change nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.host_cases import applied, placed, worked_example
from tests.support.read_back.exports import check_export
from topoopt.core.cluster import HostSetting, LinkSetting
from topoopt.core.errors import InputError
from topoopt.formats.forwarding import build_ovs
from topoopt.formats.table import Export, ExportOptions

OPTIONS = ExportOptions()
HOSTILE = (
    "a;touch HIT",
    "$(touch HIT)",
    "`touch HIT`",
    "a\ntouch HIT\n",
    "a'\ntouch HIT\n'",
    "a && touch HIT",
    "-rf",
    "--all",
    "../../HIT",
    "a b",
    "a\x00b",
    "a,actions=drop",
    "a\rb",
    "éth0",
    "eth0\n",
    "}",
    "}\ntouch HIT",
    "",
    "lo",
    "all",
    "x" * 300,
)


def hostile(place: str, word: str) -> tuple[SimpleNamespace, ExportOptions]:
    """A solution and options with a word where a user can put one."""
    links = {"A": {"eth1": 1.0}, "B": {"eth1": 1.0}}
    if place == "server":
        return placed({word: links["A"], "B2": links["B"]}, {(word, "B2", 0): 0.5}), OPTIONS
    if place == "link":
        return placed({"A": {word: 1.0}, "B": links["B"]}, {("A", "B", 0): 0.5}), OPTIONS
    if place == "solution":
        return placed(links, {("A", "B", 0): 0.5}, name=word), OPTIONS
    said = {"name": word} if place == "name" else {}
    if place == "host address":
        said = {"address": word}
    link = {"interface": {"interface": word}, "bridge": {"bridge": word}, "address": {"address": word}}.get(place)
    setting = HostSetting("A", **said, links=(LinkSetting(**link),) if link else ())
    return placed(links, {("A", "B", 0): 0.5}), ExportOptions(hosts=(setting,))


PLACES = ("server", "link", "solution", "name", "host address", "interface", "bridge", "address")


@pytest.mark.parametrize("place", PLACES)
def test_hostile_words(place: str, tmp_path: Path) -> None:
    """Words that are commands are refused; the name of a solution, which may be any, appears in no script."""
    for word in HOSTILE:
        solution, options = hostile(place, word)
        if place == "solution" or (place in ("name", "server") and word in ("lo", "all")):
            harmless(build_ovs(solution, options), tmp_path)
        else:
            with pytest.raises(InputError):
                build_ovs(solution, options)


@given(
    st.sampled_from(PLACES),
    st.text(st.characters(codec="utf-8"), max_size=20) | st.text("ab1;$`'\"\\\n(){}|&<>#!*? -._/", max_size=8),
)
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_word(tmp_path: Path, place: str, word: str) -> None:
    """Whatever a user writes is refused, or the scripts are whole and their commands plain."""
    solution, options = hostile(place, word)
    try:
        export = build_ovs(solution, options)
    except InputError:
        return
    check_export("ovs", export)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*\.(ovs|tc)\.sh|NOTES\.txt", name) for name, _ in export.files)


def harmless(export: Export, folder: Path) -> None:
    """Scripts that parse, whose dry runs succeed without touching a file."""
    check_export("ovs", export)
    for name, data in export.files:
        if name.endswith(".sh"):
            file = folder / name
            file.write_bytes(data)
            subprocess.run(["bash", "-n", str(file)], check=True)
            done = subprocess.run(["bash", str(file)], cwd=folder, capture_output=True, text=True, check=True)
            assert done.stdout.startswith("# Dry run")
            file.unlink()
    assert not list(folder.iterdir())


def test_dry_run(tmp_path: Path) -> None:
    """Dry runs print every command; other words than the three are refused."""
    export = build_ovs(worked_example(), OPTIONS)
    harmless(export, tmp_path)
    file = tmp_path / "A.tc.sh"
    file.write_bytes(dict(export.files)["A.tc.sh"])
    shown = subprocess.run(["bash", str(file), "dry-run"], capture_output=True, text=True, check=True).stdout
    assert all(line.removeprefix("run ") in shown for line in applied(export, "A.tc.sh") if line.startswith("run "))
    done = subprocess.run(["bash", str(file), "aply"], capture_output=True, text=True, check=False)
    assert (done.returncode, "usage" in done.stderr) == (1, True)
