"""`topoopt llm calibrate`: a row for each run, shipped numbers beside fitted ones, refusals and reasons."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.support.cli_cases import refusals, run
from tests.support.paths import INSTANCES, SHARED_DATA
from topoopt.workloads.language_models import TRAINING_DEVICES
from topoopt.workloads.step_efficiencies import GENERATIONS, HALF_WIDTHS, STEP_EFFICIENCIES, half_width

RUNS = INSTANCES / "llm-training" / "runs.csv"
TRAIN = SHARED_DATA / "measured_runs" / "train.csv"
HEADER = "id,model,device,gpus,tp,pp,mbs,gbs,seq,step_s"


def _table(path: Path, *lines: str, header: str = HEADER) -> Path:
    path.write_text("\n".join((header, *lines)) + "\n")
    return path


def _estimate(path: Path, line: str) -> dict[str, Any]:
    (row,) = run("llm", "calibrate", _table(path, line), "--keep", "--json").json["rows"]
    return dict(row)


def test_shipped_numbers_on_published_runs() -> None:
    """A row each, in the order of the table; within 10 % in the mean, as published models of experts and all."""
    with RUNS.open(newline="") as file:
        stated = list(csv.DictReader(file))
    result = run("llm", "calibrate", RUNS, "--keep", "--json").json
    rows = result["rows"]
    assert [row["id"] for row in rows] == [row["id"] for row in stated]
    assert [row["measured_s"] for row in rows] == [float(row["step_s"]) for row in stated]
    assert all(row["error"] == row["estimate_s"] / row["measured_s"] - 1 for row in rows)
    assert mean(abs(row["error"]) for row in rows) < 0.10
    assert result["numbers"] == []
    inside = sum(row["low_s"] <= row["measured_s"] <= row["high_s"] for row in rows)
    assert result["summary"]["inside"] == inside
    assert f"{inside} of 42 are inside their intervals" in result["answer"]


def test_every_row_of_the_measured_table_has_an_estimate_or_a_reason() -> None:
    if not TRAIN.is_file():
        pytest.skip(f"{TRAIN} is not there")
    rows = run("llm", "calibrate", TRAIN, "--keep", "--json").json["rows"]
    estimated = [row for row in rows if row["reason"] is None]
    assert len(rows) == 639
    assert len(estimated) >= 581
    assert all((row["estimate_s"] is None) == bool(row["reason"]) for row in rows)
    errors = [abs(row["error"]) for row in estimated if row["error"] is not None]
    assert mean(errors) < 0.08
    inside = mean(row["low_s"] <= row["measured_s"] <= row["high_s"] for row in estimated if row["measured_s"])
    assert 0.85 <= inside <= 0.97


def test_a_known_truth_is_found_again(tmp_path: Path) -> None:
    """Runs that all take 1.15 times as long as estimated: the factor is found, within its prior of 8 %."""
    kept = run("llm", "calibrate", RUNS, "--keep", "--json").json["rows"]
    with RUNS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "step_s": 1.15 * one["estimate_s"]} for row, one in zip(rows, kept, strict=True))
    result = run("llm", "calibrate", path, "--json").json
    numbers = {number["name"]: number["value"] for number in result["numbers"]}
    assert mean(abs(row["error"]) for row in result["rows"]) < 0.03
    assert 1.05 < numbers["own_runs"] < 1.16
    again = {name: value for name, value in numbers.items() if name != "own_runs"}
    assert all(
        STEP_EFFICIENCIES[name].value * 0.8 < value < STEP_EFFICIENCIES[name].value for name, value in again.items()
    )


def test_fitted_numbers_go_into_an_instance(tmp_path: Path) -> None:
    instance = INSTANCES / "llm-training" / "a100.yaml"
    options = ("--set", "tensor=8,pipeline=2", "--json")
    base = run("llm", "evaluate", instance, *options).json
    path = tmp_path / "own.yaml"
    path.write_text(instance.read_text() + "efficiencies: {own_runs: 1.1}\n")
    own = run("llm", "evaluate", path, *options).json
    assert own["iteration_time_s"] == pytest.approx(1.1 * base["iteration_time_s"])
    path.write_text(instance.read_text() + "efficiencies: {products_a10: 0.5}\n")
    refused = run("llm", "evaluate", path, *options)
    assert refused.code == 2
    assert refusals(refused.json)


def test_a_device_without_runs_has_twice_the_interval(tmp_path: Path) -> None:
    """MI355X: efficiencies of MI300X, more of a peak; twice the half width, and the answer says of what."""
    line = "{},llama3.1-8b,{},8,1,1,1,64,8192,"
    fitted = _estimate(tmp_path / "a.csv", line.format("a", "mi300x"))
    other = _estimate(tmp_path / "b.csv", line.format("b", "mi355x"))
    assert other["estimate_s"] < fitted["estimate_s"]
    widths = [math.log(row["high_s"] / row["estimate_s"]) for row in (fitted, other)]
    assert widths[1] == pytest.approx(2 * widths[0])
    width = half_width("mi355x", "megatron-bridge", "dense")
    assert "no run of a mi355x" in width.reason


def test_every_device_has_efficiencies_and_every_set_a_width() -> None:
    assert set(GENERATIONS) == set(TRAINING_DEVICES)
    assert set(HALF_WIDTHS) >= {"all", "dense", "experts"}
    fitted = [number for number in STEP_EFFICIENCIES.values() if number.prior > 0]
    assert len(fitted) == 38
    assert all(number.spread > 0 and number.least <= number.value <= number.most for number in fitted)


def test_more_replicas_of_the_same_work_take_longer(tmp_path: Path) -> None:
    """8B on 8 and on 128 H100, two sequences a device: 1 to 5 % more (torchtitan measured 2.3 %)."""
    small, large = (
        _estimate(tmp_path / "t.csv", f"titan-a,llama3.1-8b,h100-sxm-96-hbm2e-500w,{n},1,1,2,{2 * n},8192,")
        for n in (8, 128)
    )
    assert 1.01 < large["estimate_s"] / small["estimate_s"] < 1.05
    assert small["estimate_s"] == pytest.approx(16 * 8192 / 8 / 6667, rel=0.15)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,llama3.1-8b,h100,8,1,1,1,,8192,", "the batch is not stated"),
        ("a,llama3.1-8b,h100,8,,1,1,8,8192,1", "the layout is not stated"),
        ("a,llama3.1-8b,h100,8,1,1,1,8,,1", "the length of a sequence is not stated"),
        ("a,gpt-9,h100,8,1,1,1,8,8192,1", "no model gpt-9"),
        ("a,llama3.1-8b,h1000,8,1,1,1,8,8192,1", "no device h1000"),
        ("a,llama3.1-8b,h100,8,3,1,1,8,8192,1", "do not divide 8 devices"),
        ("a,llama3.1-8b,h100,8,x,1,1,8,8192,1", "tp is 'x', no positive number"),
        ("a,llama3.1-8b,h100,8,1,1,4,8,8192,1", "smaller than replicas x micro-batch"),
        ("a,llama3.1-8b,h100,8,1", "5 cells for 10 columns"),
    ],
)
def test_rows_without_an_estimate_say_why(tmp_path: Path, line: str, reason: str) -> None:
    row = _estimate(tmp_path / "runs.csv", line)
    assert reason in row["reason"]
    assert [row[name] for name in ("estimate_s", "low_s", "high_s", "measured_s", "error")] == [None] * 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "number of runs"),
        ("id,model\na,b\n", "missing column"),
        (f"{HEADER},speed\n" + "a," * 10 + "1\n", "no such column"),
        ("id,id,model,device,gpus\na,a,b,c,d\n", "column twice"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, words: str) -> None:
    """Exit code 2, with the file."""
    path = tmp_path / "runs.csv"
    path.write_text(text)
    result = run("llm", "calibrate", path, "--json")
    assert result.code == 2
    assert refusals(result.json)
    problems = result.json["problems"]
    assert all(problem["file"] == str(path) for problem in problems)
    assert any(words in problem["message"] for problem in problems)


def test_nothing_to_fit_is_refused(tmp_path: Path) -> None:
    path = _table(tmp_path / "runs.csv", "a,llama3.1-8b,h100,8,1,1,1,8,8192,")
    assert run("llm", "calibrate", path, "--json").code == 2
    text = run("llm", "calibrate", path, "--keep").stdout
    assert "1 run estimated, none of them measured" in text
