"""`topoopt calibrate`: the shipped efficiencies from the shipped runs, a known truth found again, refusals."""

from __future__ import annotations

import csv
from dataclasses import astuple, replace
from pathlib import Path
from statistics import mean

import pytest

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES
from topoopt.analyses.calibrate import USUAL, errors_of, fitted, predicted_s, read_runs, summary
from topoopt.files.documents import parse_document
from topoopt.kinds.llm_training.read import read_llm_training
from topoopt.workloads.training_devices import TRAINING_DEVICES

FOLDER = INSTANCES / "llm-training"
HEADER = "source,run,seconds,tensor,pipeline,micro_batch"


@pytest.mark.parametrize(
    ("device", "fitted", "held_out"),
    [("a100", 13, 12), ("h100", 9, 7)],
)
def test_shipped_efficiencies_come_from_every_second_published_run(device: str, fitted: int, held_out: int) -> None:
    """At most 10 % error in the mean, and 20 % at worst, on the runs held out; no run at all is further off."""
    words = ("llm", "calibrate", FOLDER / f"{device}.yaml", FOLDER / f"runs-{device}.csv", "--json")
    found = run(*words).json
    shipped = astuple(TRAINING_DEVICES[device].reached)
    assert list(found["efficiencies"].values()) == pytest.approx(shipped, rel=0.02)
    assert (found["fitted"]["runs"], found["held_out"]["runs"]) == (fitted, held_out)
    assert found["held_out"]["mean_percent"] < 10
    assert max(abs(one["error_percent"]) for one in found["runs"]) < 20
    fit, held = (
        [abs(one["model_s"] / one["measured_s"] - 1) for one in found["runs"] if one["held_out"] is back]
        for back in (False, True)
    )
    assert found["answer"] == (
        f"Fitted to {fitted} runs, the model of {device} is off by {100 * mean(held):.1f} % in the mean, "
        f"{100 * max(held):.1f} % at worst, on {held_out} runs held back, "
        f"and by {100 * mean(fit):.1f} % on those fitted."
    )


@pytest.mark.parametrize(("times", "worst"), [(0.5, 19.7), (2.0, 11.4)])
def test_the_goal_is_met_with_half_or_twice_the_usual_cost_of_an_expert(
    times: float, worst: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is drawn to what others measured, on other GPUs: at most 20 % at worst all the same, as the page says."""
    usual, spread, most = USUAL["expert_us"]
    monkeypatch.setitem(USUAL, "expert_us", (times * usual, spread, most))
    problem = read_llm_training(parse_document(FOLDER / "h100.yaml"))
    runs = read_runs(FOLDER / "runs-h100.csv", problem)
    reached = fitted([one for one in runs if not one.held_out])
    errors = summary(errors_of([one for one in runs if one.held_out], reached))
    assert errors["mean_percent"] < 10
    assert errors["worst_percent"] == pytest.approx(worst, abs=0.1)


def test_a_device_without_runs_of_its_own_is_judged_with_what_it_has() -> None:
    """One run of H800s, with the efficiencies of H100s: DeepSeek-V3 at 19.9 s (arXiv:2412.19437)."""
    words = ("llm", "calibrate", FOLDER / "h800.yaml", FOLDER / "runs-h800.csv")
    assert run(*words, "--json").code == 2
    found = run(*words, "--keep", "--json").json
    assert [one["measured_s"] for one in found["runs"]] == [19.9]
    assert found["held_out"]["worst_percent"] < 20
    off = f"{100 * abs(found['runs'][0]['model_s'] / 19.9 - 1):.1f} %"
    assert found["answer"] == (
        f"With the efficiencies of the instance the model of h800 is off by {off} in the mean, {off} at worst, "
        "on 1 run."
    )


def test_a_known_truth_is_found_again(tmp_path: Path) -> None:
    """Times made with other efficiencies: what is fitted to half of them gives the other half to 2 %."""
    instance = FOLDER / "h100.yaml"
    problem = read_llm_training(parse_document(instance))
    runs = read_runs(FOLDER / "runs-h100.csv", problem)
    truth = replace(TRAINING_DEVICES["h100"].reached, products=0.7, scale_up=0.5, chunk_us=200.0, iteration_ms=150.0)
    with (FOLDER / "runs-h100.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    made = tmp_path / "runs.csv"
    with made.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row, one in zip(rows, runs, strict=True):
            writer.writerow({**row, "seconds": predicted_s(one, truth)})
    before = run("llm", "calibrate", instance, made, "--keep", "--json").json
    after = run("llm", "calibrate", instance, made, "--json").json
    assert after["held_out"]["mean_percent"] < 2
    assert before["held_out"]["mean_percent"] > 2 * after["held_out"]["mean_percent"]


def test_fitted_efficiencies_go_into_an_instance(tmp_path: Path) -> None:
    words = ("llm", "calibrate", FOLDER / "a100.yaml", FOLDER / "runs-a100.csv")
    found = run(*words, "--keep", "--json").json["efficiencies"]
    path = tmp_path / "own.yaml"
    path.write_text((FOLDER / "a100.yaml").read_text() + f"efficiencies: {found}\n")
    options = ("--set", "tensor=8,pipeline=2", "--json")
    base = run("llm", "evaluate", FOLDER / "a100.yaml", *options).json
    own = run("llm", "evaluate", path, *options).json
    assert own["iteration_time_s"] == base["iteration_time_s"]
    path.write_text(path.read_text().replace(f"'products': {found['products']}", "'products': 0.4"))
    assert run("llm", "evaluate", path, *options).json["iteration_time_s"] > base["iteration_time_s"]


def test_text_names_every_run() -> None:
    words = ("llm", "calibrate", FOLDER / "h800.yaml", FOLDER / "runs-h800.csv", "--keep")
    result = run(*words)
    assert result.code == 0
    assert "held out: 1 run," in result.stdout
    assert "fitted: 0" not in result.stdout
    assert "products" in result.stdout


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", None),
        ("source,run\na,b\n", "seconds"),
        (f"{HEADER},speed\na,b,1,8,1,1,2\n", None),
        (f"{HEADER}\na,b,0,8,1,1\n", "seconds"),
        ("source,run,seconds,gradient_bytes\na,b,1,3\n", "gradient_bytes"),
        (f"{HEADER}\na,b,nan,8,1,1\n", "seconds"),
        (f"{HEADER}\na,b,1,3,1,1\n", "tensor"),
        (f"{HEADER}\na,b,1,8,x,1\n", "pipeline"),
        (f"{HEADER}\na,b,1,8,1\n", None),
        (f"{HEADER},gpus\na,b,1,8,1,1,12\n", "gpus"),
        (f"{HEADER},model\na,b,1,8,1,1,gpt-9\n", "model"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, where: str | None) -> None:
    """Exit code 2, with the file, the line and the column."""
    path = tmp_path / "runs.csv"
    path.write_text(text)
    result = run("llm", "calibrate", FOLDER / "h100.yaml", path, "--json")
    assert result.code == 2
    assert refusals(result.json)
    problem = result.json["problems"][0]
    assert problem["file"] == str(path)
    assert where in (None, problem["path"])


def test_all_bad_lines_are_told(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEADER}\na,b,-1,8,1,1\na,c,1,7,1,1\na,d,1,8,1,1\n")
    result = run("llm", "calibrate", FOLDER / "h100.yaml", path, "--json")
    assert {problem["line"] for problem in result.json["problems"]} == {2, 3}
