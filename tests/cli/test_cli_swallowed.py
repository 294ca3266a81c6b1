"""Signals that arrive where compiled code swallows what is raised: every command ends with exit code 130 even so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from solvers.stop import stop_on_signals
from tests.support import written_schedules as schedules
from tests.support.cli_cases import run
from tests.support.interrupting import signalled_callback
from tests.support.paths import INSTANCES, ROOT
from topoopt.cli.app import COMMANDS
from topoopt.core.process import SIGNALS, interrupt, is_pending, take
from topoopt.files.atomic import write_text_atomically
from topoopt.page.output import Output

TINY, NETWORK = INSTANCES / "tiny-4.yaml", INSTANCES / "networks" / "uniform-5-2.yaml"
TRAINING = INSTANCES / "llm-training"
MODEL = TRAINING / "small-16.yaml"

NO_FILES = {"init", "doctor", "cost"}
"""Commands that read and write nothing through pydantic, or only what calls nothing of ours."""

ALONE = {"describe topology --schema": "", "validate": f"{MODEL} --json"}
"""Called in a process of its own: the first does in each what is called back."""

CALLED = {
    "solve": f"{TINY} --budget 20 -o OUT/plan",
    "check": "@/tiny/solution.json",
    "compare": f"{NETWORK} --methods kautz,totient -o OUT/methods.csv",
    "show": "@/tiny/solution.json",
    "report": "@/tiny/solution.json -o OUT/report.html",
    "convert": f"{ROOT}/tests/files/format_2/allocation.json -o OUT/converted.json",
    "validate": f"{TINY} {NETWORK} {MODEL}",
    "describe": f"{TINY}",
    "export --to lp": f"{NETWORK} --set formulation=joint_topology -o OUT/model.lp",
    "explain": "@/network/solution.json",
    "export": "@/tiny/solution.json --to patch-list -o OUT/patches",
    "llm evaluate": f"{MODEL} --set tensor=1",
    "llm calibrate": f"{TRAINING}/runs.csv",
    "compare --fabrics": f"fat-tree,ideal-switch {TINY} --budget 50",
    "resilience": "@/network/solution.json -o OUT/failures.csv",
    "reconfigure": f"{TINY} --delays 10us,1ms --budget 50",
    "import job": f"{TINY} --set objective=throughput -o OUT/placement.yaml",
    "import msccl": "@/ring.xml --set link_gbps=80 -o OUT/ring.yaml",
    "study validate": f"{INSTANCES}/studies/llm-small.yaml",
    "study run": f"{INSTANCES}/studies/llm-small.yaml -o OUT/runs",
    "collective bound": f"{INSTANCES}/collectives/ring-5.yaml",
}
"""Command -> what it is called with."""

NEVER = {"llm calibrate", "import msccl"}
"""Commands that pydantic does not call back."""

TWICE = {"export --to lp", "compare", "llm evaluate", "resilience", "collective bound", "convert", "explain"}
"""Commands that it calls back no more than twice, once what it makes of the classes is made."""

KEEPING = {"solve", "compare"}
"""Commands that write what was found by then."""

CASES = [(name, which) for name in CALLED if name not in NEVER for which in (1, 3) if which == 1 or name not in TWICE]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Solutions, and a schedule to ask about."""
    folder = tmp_path_factory.mktemp("made")
    for name, words in {"tiny": (TINY, "--budget", 20), "network": (NETWORK,), "model": (MODEL,)}.items():
        assert run("solve", *words, "--output", folder / name).code == 0
    schedules.msccl(folder / "ring.xml", "allgather", 3, schedules.ring_allgather(3), sizes=(1, 3))
    return folder


@pytest.fixture
def raising() -> Iterator[None]:
    """SIGINT as the command line hears it."""
    before = signal.signal(signal.SIGINT, interrupt)
    yield
    assert not is_pending()
    signal.signal(signal.SIGINT, before)


def words_of(name: str, made: Path, out: Path) -> list[str]:
    """A command of the table, which writes to a folder."""
    return [*name.split(), *(word.replace("@", str(made)).replace("OUT", str(out)) for word in CALLED[name].split())]


def test_every_command_stands_in_the_table() -> None:
    """What reads or writes files is called."""
    assert {name.split()[0] for name in (*CALLED, *ALONE)} == {words.split()[0] for words in COMMANDS} - NO_FILES


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of files that the library of Python had open
@pytest.mark.usefixtures("raising")
@pytest.mark.parametrize(("name", "which"), CASES)
def test_a_signal_while_pydantic_calls_back(tmp_path: Path, made: Path, name: str, which: int) -> None:
    """In the first call and in a later one, from reading a file on: exit code 130, and nothing half-written."""
    with signalled_callback(which) as called:
        result = run(*words_of(name, made, tmp_path))
    assert len(called) >= which, "no signal was sent"
    assert result.code == 130, result.stderr
    assert "Traceback" not in result.stderr
    assert name in KEEPING or not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", ["tiny", "network"])
def test_a_signal_while_a_solution_is_written(tmp_path: Path, made: Path, name: str) -> None:
    """Pydantic writes the file after the search: it is there, whole, and the exit code says that a signal came."""
    words = (
        "solve",
        *{"tiny": (TINY, "--budget", 20), "network": (NETWORK,)}[name],
        "--output",
        tmp_path,
        "--force",
        "--json",
    )
    assert run(*words).code == 0  # the readers of the classes are made once, and call back, too
    with signalled_callback(0) as called:
        assert run(*words).code == 0
    before = json.loads((tmp_path / "solution.json").read_text())
    for which in (len(called), max(1, len(called) * 3 // 4)):
        with signalled_callback(which):
            result = run(*words)
        assert result.code == 130
        found = json.loads((tmp_path / "solution.json").read_text())
        assert found["objective"] == before["objective"]
        assert run("check", words[1], tmp_path / "solution.json").code == 0


SWALLOWED = """
import sys
from tests.support.interrupting import signalled_callback
from topoopt.cli.main import main
with signalled_callback(int(sys.argv.pop(1)), int(sys.argv.pop(1))):
    main()
"""


@pytest.mark.parametrize(("name", "number"), list(zip(("describe topology --schema", *ALONE), SIGNALS, strict=True)))
def test_the_program_ends(name: str, number: signal.Signals) -> None:
    """The same in a process of its own, also in what it does once."""
    command = [sys.executable, "-c", SWALLOWED, "1", str(int(number)), *name.split(), *ALONE[name].split()]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, preexec_fn=_heed_all
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    if "--json" in command:
        assert json.loads(done.stdout) == {"status": "unknown", "stopped_by": "interrupted", "exit_code": 130}


def _heed_all() -> None:
    """These tests may run under `nohup`, which children would inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def swallowing(then: Callable[[], int]) -> Callable[[], int]:
    """A command in which compiled code would swallow the interrupt, and which goes on."""

    def command() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            pass
        return then()

    return command


def ended(command: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and messages of a command."""
    with pytest.raises(typer.Exit) as left:
        Output.choose(False).run(command)
    return left.value.exit_code, capsys.readouterr().err


def waits() -> int:
    """Longer than anybody would."""
    time.sleep(60)
    return 0


def computes() -> int:
    """In Python, without an end."""
    while True:
        pass


def fails() -> int:
    """With what compiled code made of the interrupt."""
    raise RuntimeError("returned a result with an exception set")


@pytest.mark.usefixtures("raising")
@pytest.mark.parametrize("then", [waits, computes, fails])
def test_what_was_swallowed_comes_again(then: Callable[[], int], capsys: pytest.CaptureFixture[str]) -> None:
    """Where it waits and computes; an error that comes of it is none of its own."""
    assert ended(swallowing(then), capsys) == (130, "interrupted\n")


@pytest.mark.usefixtures("raising")
@pytest.mark.parametrize(("code", "said"), [(0, 130), (2, 2)])
def test_a_command_that_ends_first(code: int, said: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the interrupt comes again: the exit code says that it came, unless something was wrong."""
    assert ended(swallowing(lambda: code), capsys) == (said, "")


@pytest.mark.usefixtures("raising")
def test_nothing_is_written_after_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was made while it was swallowed may be wrong."""

    def writes() -> int:
        write_text_atomically(tmp_path / "made", "text")
        return 0

    assert ended(swallowing(writes), capsys) == (130, "interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("raising")
def test_cleaning_up_is_not_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    """It does not come again while it is on its way."""
    cleaned: list[bool] = []

    def command() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            return waits()
        finally:
            time.sleep(0.1)
            cleaned.append(True)

    assert ended(command, capsys) == (130, "interrupted\n")
    assert cleaned == [True]


def test_a_third_signal_that_is_swallowed_comes_again() -> None:
    """Two only set the flags of a search; what the third raises ends it, and does not come again after it."""
    with pytest.raises(KeyboardInterrupt):
        _searches(signals=2)
    time.sleep(0.1)


@pytest.mark.usefixtures("raising")
def test_no_search_begins_after_it() -> None:
    """A search has handlers of its own, which would take the interrupt for its first signal."""
    with pytest.raises(KeyboardInterrupt):
        swallowing(lambda: _searches(signals=0))()
    take()


def _searches(signals: int) -> int:
    """A search that heeds so many, of which the next is swallowed."""
    with stop_on_signals(None, two_stage=True):
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
        return swallowing(waits)()


@pytest.mark.usefixtures("raising")
def test_a_signal_while_the_object_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two parts of a large object: the object of an interrupted run is printed in its place, no traceback."""
    encode = json.JSONEncoder.iterencode

    def interrupted_once(self: json.JSONEncoder, document: object, **options: bool) -> Iterator[str]:
        monkeypatch.setattr(json.JSONEncoder, "iterencode", encode)
        os.kill(os.getpid(), signal.SIGINT)
        return encode(self, document, **options)

    monkeypatch.setattr(json.JSONEncoder, "iterencode", interrupted_once)
    result = run("llm", "calibrate", *CALLED["llm calibrate"].split(), "--keep", "--json")
    assert (result.code, result.stderr) == (130, "interrupted\n")
    assert result.json == {"status": "unknown", "stopped_by": "interrupted", "exit_code": 130}
