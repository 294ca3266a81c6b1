"""Make the files of `instances/measured` and `instances/published` again from the public data they come from.

    python -m tests.support.measured ../shared/data        # writes instances/measured and instances/published

The folder given holds `flexnet` (TopoOpt artifact), `placement` (msr-fiddle/dnn-partitioning) and `libra`.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

from topoopt.files.job_document import read_profile
from topoopt.formats.flexnet.importer import infer_sizes

MODELS = {"dlrm": "dlrm16", "bert": "transformer16", "vgg": "vgg16", "candle": "candle16"}
"""Model and its measured profile on 16 servers."""

GRAPHS = {"dlrm": "dlrm", "bert": "transformer", "vgg": "vgg", "candle": "candle"}
"""Model and its name among the released task graphs."""

PROFILES = {
    "dlrm": ["measures/dlrm*.json", "fig12/*.json"],
    "candle": ["measures/candle*.json"],
    "bert": ["measures/transformer*.json"],
    "vgg": ["measures/vgg*.json"],
    "resnet": ["measures/resnet*.json"],
    "ncf": ["measures/ncf*.json"],
}
"""Model and where its measured profiles stand."""

GPUS_PER_SERVER = 4

COLUMNS = (
    *("model", "profile", "servers", "samples", "sizes", "operator", "parts"),
    *("forward_ms", "backward_ms", "gpu_memory_bytes"),
)
"""Of `operator-times.csv`; `sizes` are those of the model, `parts` over how many servers the operator is split."""

PLACEMENT = {
    "bert24-inference": "throughput/LayerGraphs/bert24_inference",
    "bert24-training": "throughput/LayerGraphs/bert24_training",
    "gnmt-inference": "throughput/LayerGraphs/gnmt_inference",
    "resnet50-inference": "throughput/LayerGraphs/resnet50_inference",
    "bert-3-inference": "throughput/OperatorGraphs/bert_l-3_inference",
    "bert-3-training": "throughput/OperatorGraphs/bert_l-3_training",
    "bert-6-inference": "throughput/OperatorGraphs/bert_l-6_inference",
}
"""Graphs of pipelines, with the CPU pool."""

LATENCY = {
    "latency-bert24-inference": "latency/LayerGraphs/bert24_inference",
    "latency-gnmt-inference": "latency/LayerGraphs/gnmt_inference",
    "latency-bert-3-inference": "latency/OperatorGraphs/bert_l-3_inference",
    "latency-bert-3-training": "throughput/OperatorGraphs/bert_l-3_training",
}
"""Graphs of single steps, without CPUs."""

HIERARCHIES = {
    "gpt3-libra-3d": ("GPT_3", "3d"),
    "gpt3-libra-4d": ("GPT_3", "4d"),
    "msft-1t-libra-3d": ("MSFT_1T", "3d"),
    "msft-1t-libra-4d": ("MSFT_1T", "4d"),
    "resnet50-libra-3d": ("ResNet_50", "3d"),
    "resnet50-libra-4d": ("ResNet_50", "4d"),
}
"""Model and shape of hierarchical networks, 500 GB/s an NPU."""


def imported(words: list[object], out: Path) -> None:
    """Run `topoopt import`, and name the instance after its file."""
    command = [sys.executable, "-m", "topoopt.cli.main", "import", *map(str, words), "-o", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    text = out.read_text()
    if out.suffix == ".json":
        line = next(part for part in text.split("\n") if part.startswith(' "name": '))
        out.write_text(text.replace(line, f' "name": "{out.stem}",', 1))
    else:
        line = next(part for part in text.split("\n") if part.startswith("name: "))
        out.write_text(text.replace(line, f"name: {out.stem}", 1))


def operator_times(data: Path) -> str:
    """All measured operator times as CSV: a row an operator and number of parts, sizes of the model in every row."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for model, patterns in PROFILES.items():
        for path in sorted(path for pattern in patterns for path in (data / "flexnet").glob(pattern)):
            profile = read_profile(path)
            sizes = infer_sizes(model, profile, gpus_per_server=GPUS_PER_SERVER)
            stated = " ".join(f"{name}={value}" for name, value in sizes.items())
            for key, table in profile.operators.items():
                for parts, measured in table.items():
                    row = (model, path.stem, profile.servers, profile.samples, stated, key, parts)
                    writer.writerow((*row, measured.forward_ms, measured.backward_ms, measured.gpu_memory_bytes))
    return stream.getvalue()


def make(data: Path, instances: Path) -> None:
    """Write all files below `instances`."""
    measured, published = instances / "measured", instances / "published"
    measured.mkdir(parents=True, exist_ok=True)
    published.mkdir(parents=True, exist_ok=True)
    flexnet = data / "flexnet"
    for model, profile in MODELS.items():
        words = ("flexnet", flexnet / "measures" / f"{profile}.json", "--set", f"model={model},degree=4")
        imported([*words, "--set", "reference=true"], measured / f"{model}-16-measured.yaml")
    for per_gpu in (64, 2048):
        file = flexnet / "fig12" / f"measure_{per_gpu * 512}_128.json"
        words = ("flexnet", file, "--set", "model=dlrm,degree=4,element_sizes=flexnet")
        imported(list(words), measured / f"dlrm-128-batch-{per_gpu}.yaml")
    for model, graph in GRAPHS.items():
        for gbps in (100, 400):
            file = flexnet / "taskgraphs" / f"{gbps}{graph}_16.fbuf"
            out = measured / f"{model}-16-fixed-{gbps}gbps.yaml"
            imported(["flexnet", file], out)
            # The file states the rate of its search; the packet simulator ran it at the rate in its name.
            out.write_text(out.read_text().replace("link_gbps: 100.0,", f"link_gbps: {gbps}.0,", 1))
    (measured / "operator-times.csv").write_text(operator_times(data))
    graphs = data / "placement"
    for name, source in PLACEMENT.items():
        words = ("dnn-partitioning", graphs / f"{source}.json", "--set", "objective=throughput")
        imported(list(words), published / f"{name}.json")
    for name, source in LATENCY.items():
        words = ("dnn-partitioning", graphs / f"{source}.json", "--set", "objective=latency,cpu=false")
        words = (*words, "--set", "devices=3") if name.endswith("training") else words
        imported(list(words), published / f"{name}.json")
    libra = data / "libra"
    for name, (model, shape) in HIERARCHIES.items():
        imported(
            [
                *("libra", libra / "workload" / f"{model}.txt"),
                *("--set", f"network={libra / 'network' / f'{shape}_network.yml'}"),
                *("--set", f"communicator={libra / 'communicator' / f'{model}_{shape}.yml'}"),
                *("--set", f"cost_model={libra / 'cost_model' / f'{shape}_cost_model.yml'}"),
                *("--set", "total_gbytes_per_s=500"),
            ],
            published / f"{name}.yaml",
        )


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(__file__).parents[2] / "instances")
