"""Examples of every command, as `--help` shows them; they are about the shipped instances."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "solve": (
        "topoopt solve candle-16.yaml",
        "topoopt solve candle-16.yaml --budget 500 --seed 1 --out out/candle",
        "topoopt solve dlrm-128.yaml --jobs 8 --executor slurm --executor-option partition=short",
        "topoopt solve uniform-8-2.yaml --method exact --time-limit 60 --json",
        "topoopt solve uniform-5-2.yaml --solver gurobi --model-hook my_constraints.py",
    ),
    "check": ("topoopt check out/candle-16/solution.json", "topoopt check candle-16.yaml out/candle-16/solution.json"),
    "compare": ("topoopt compare uniform-8-2.yaml --methods exact,portfolio,kautz --csv methods.csv",),
    "cost": (
        "topoopt cost candle-16.yaml",
        "topoopt cost --servers 128 --degree 4 --rate 100 --csv prices.csv",
    ),
    "show": ("topoopt show out/candle-16/solution.json", "topoopt show out/candle-16/solution.json --json"),
    "report": ("topoopt report out/candle-16/solution.json",),
    "convert": ("topoopt convert old/solution.json -o out/solution.json",),
    "validate": ("topoopt validate my-job.yaml", "topoopt validate instances/*.yaml"),
    "schema": ("topoopt schema topology",),
    "describe": ("topoopt describe topology", "topoopt describe co-optimisation cluster.degree"),
    "examples": (
        "topoopt examples",
        "topoopt examples candle-16 -o my-job.yaml",
        "topoopt examples -o instances",
    ),
    "init": ("topoopt init topology", "topoopt init co-optimisation -o my-job.yaml"),
    "methods": ("topoopt methods topology", "topoopt methods my-job.yaml"),
    "dump-model": (
        "topoopt dump-model --list",
        "topoopt dump-model uniform-5-2.yaml --formulation joint_topology -o model.lp",
    ),
    "explain": ("topoopt explain out/uniform-8-2/solution.json --more 1",),
    "export": (
        "topoopt export --list",
        "topoopt export out/candle-16/solution.json --to patch-list --out patches",
    ),
    "evaluate": (
        "topoopt evaluate llama3-70b-64.yaml --tensor 8 --pipeline 2 --data 4 --micro-batch 1",
        "topoopt evaluate llama3-70b-64.yaml --tensor 8 --pipeline 4",
    ),
    "calibrate": ("topoopt calibrate a100.yaml --measured runs-a100.csv",),
    "fabrics": ("topoopt fabrics candle-16.yaml --fabrics fat-tree,ideal-switch --budget 500",),
    "replay": ("topoopt replay graph.fbuf --fabric ideal-switch --link-gbps 100",),
    "resilience": (
        "topoopt resilience out/uniform-8-2/solution.json --csv failures.csv",
        "topoopt resilience out/llama3-70b-64/solution.json --days 349 --spares 0,2,4",
    ),
    "reconfigure": ("topoopt reconfigure candle-16.yaml --delays 10us,1ms,10ms",),
    "doctor": ("topoopt doctor",),
    "import flexnet-profile": ("topoopt import flexnet-profile profile.json --model dlrm -o job.yaml",),
    "import flexnet-taskgraph": ("topoopt import flexnet-taskgraph graph.fbuf -o job.yaml",),
    "import chakra": ("topoopt import chakra traces/ --as co-optimisation --peak-tflops 312 -o job.yaml",),
    "import astrasim-network": ("topoopt import astrasim-network network.yml -o network.yaml",),
    "import libra": (
        "topoopt import libra --network net.csv --cost-model cost.csv --workload gpt3.csv --total-gbytes-per-s 500",
    ),
    "import dnn-partitioning": ("topoopt import dnn-partitioning graph.json --objective throughput -o place.yaml",),
    "import msccl": ("topoopt import msccl allreduce.xml --link-gbytes-per-s 25 -o schedule.yaml",),
    "import mscclpp": ("topoopt import mscclpp plan.json --link-gbytes-per-s 25 -o schedule.yaml",),
    "import astrasim-collective": ("topoopt import astrasim-collective trace.et --link-gbytes-per-s 25 -o c.yaml",),
    "import sccl": ("topoopt import sccl algorithm.json --chunk-gbytes-per-s 25 -o schedule.yaml",),
    "import teccl": ("topoopt import teccl schedule.json -o schedule.yaml",),
    "import expert-split": ("topoopt import expert-split gnmt-inference.json solution.json -o expert.json",),
    "import job": ("topoopt import job candle-16.yaml --objective throughput -o placement.yaml",),
    "study validate": ("topoopt study validate instances/studies/totient-diameter.yaml",),
    "study run": (
        "topoopt study run instances/studies/totient-diameter.yaml --out out/totient --jobs 2",
        "topoopt study run instances/studies/totient-diameter.yaml --out out/totient --again 3fa9",
    ),
    "study report": ("topoopt study report out/totient",),
    "topology totient": ("topoopt topology totient --servers 12 --degree 4",),
    "topology metrics": ("topoopt topology metrics --family generalized-kautz --servers 16 --degree 4",),
    "topology traffic": ("topoopt topology traffic out/candle-16/solution.json --plot traffic.html",),
    "collective bound": ("topoopt collective bound 'preset: dgx-a100, boxes: 2'",),
    "collective audit": ("topoopt collective audit allreduce.xml --format msccl",),
    "collective job": ("topoopt collective job candle-16.yaml out/candle-16/solution.json",),
    "collective switch": ('topoopt collective switch --ranks 64 --bytes "100 MB"',),
    "collective find": ("topoopt collective find --servers 12 --degree 4",),
}
"""By command; each line stands alone."""
