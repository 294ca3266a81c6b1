"""Every expected value of the published problems: objectives to 1e-7, bandwidths to 1e-3 where they are unique.

The values come from other methods: SLSQP with twelve starts, a zooming grid, and the authors' own non-convex model.
"""

from __future__ import annotations

import pytest

from tests.support.hierarchical_cases import problem_of, published, solved
from topoopt.core.proofs import Status
from topoopt.verify.hierarchy import fleet_time_ns, network_cost_usd

TOTAL_500 = [
    ("GPT_3", "3d", "time", [397.55295, 89.99270, 12.45435], 727439975.679, 10916122.79, 1.059526, 4.333418),
    ("MSFT_1T", "3d", "time", [402.18820, 23.46098, 74.35082], 209686274.879, 24454534.00, 1.212122, 2.212963),
    ("ResNet_50", "3d", "time", [468.86447, 27.35043, 3.78510], 1299287.486, 9019924.97, 1.284650, 6.358711),
    ("GPT_3", "3d", "time-times-cost", [480.51133, 17.11946, 2.36921], 759035079.806, 8710230.80, 1.015423, 5.204808),
    ("ResNet_50", "3d", "time-times-cost", [468.86447, 27.35043, 3.78510], 1299287.486, 9019924.97, 1.28465, 6.358711),
    ("GPT_3", "4d", "time", [338.44968, 84.61242, 58.15779, 18.78012], 722411780.920, 9527165.21, 1.072858, 3.886060),
    (
        "MSFT_1T",
        "4d",
        "time",
        [321.75056, 93.84391, 10.05470, 74.35082],
        209686274.879,
        21818766.27,
        1.242231,
        1.964732,
    ),
    ("ResNet_50", "4d", "time", [375.09158, 109.40171, 11.72161, 3.78510], 1299287.486, 5947179.57, 1.314092, 7.625106),
    (
        *("GPT_3", "4d", "time-times-cost", [448.83254, 44.55866, 4.99562, 1.61317]),
        *(813451676.159, 4868030.22, 0.952786, 6.754186),
    ),
    (
        *("ResNet_50", "4d", "time-times-cost", [419.81956, 70.22647, 7.52426, 2.42971]),
        *(1413072.363, 5284305.09, 1.208278, 7.890598),
    ),
]


@pytest.mark.parametrize(
    ("model", "shape", "objective", "bandwidth", "time_ns", "cost_usd", "speedup", "gain"), TOTAL_500
)
def test_total_of_500(
    model: str,
    shape: str,
    objective: str,
    bandwidth: list[float],
    time_ns: float,
    cost_usd: float,
    speedup: float,
    gain: float,
) -> None:
    """Bandwidths, time, cost and both gains over the equal split; certified to 1e-9."""
    found = solved(published(model, shape, objective=objective))
    value = time_ns if objective == "time" else time_ns * cost_usd
    assert found.status is Status.OPTIMAL
    assert found.gap <= 1.1e-9
    assert found.objective.value == pytest.approx(value, rel=1e-7)
    assert found.plan.bandwidth_gbytes_per_s == pytest.approx(bandwidth, rel=1e-3)
    assert found.figures.speedup_over_equal == pytest.approx(speedup, rel=1e-4)
    assert found.figures.perf_per_cost_gain == pytest.approx(gain, rel=1e-3)
    if objective == "time":
        assert found.figures.time_ns == pytest.approx(time_ns, rel=1e-7)


@pytest.mark.parametrize(
    ("model", "shape", "time_ns", "cost_usd"),
    [
        ("GPT_3", "3d", 770741852.496, 44646481.92),
        ("MSFT_1T", "3d", 254165358.096, 44646481.92),
        ("ResNet_50", "3d", 1669129.520, 44646481.92),
        ("GPT_3", "4d", 775045208.400, 34508892.16),
        ("MSFT_1T", "4d", 260478834.192, 34508892.16),
        ("ResNet_50", "4d", 1707383.888, 34508892.16),
    ],
)
def test_equal_split(model: str, shape: str, time_ns: float, cost_usd: float) -> None:
    """Time and cost of the equal split by the checker's own evaluation."""
    problem = problem_of(published(model, shape))
    design = problem.designs[0]
    equal = [500.0 / len(design.network.dimensions)] * len(design.network.dimensions)
    assert fleet_time_ns(design, problem.fleet, equal) == pytest.approx(time_ns, rel=1e-9)
    assert network_cost_usd(design.network, equal) == pytest.approx(cost_usd, rel=1e-9)


MULTIPLE = [
    ("GPT_3", "time", [500, 300, 151.1811, 48.8189], 708438743.4, 7.084387434e8),
    ("MSFT_1T", "time", [500, 300, 15.625, 184.375], 194118475.73, 1.941184757e8),
    ("ResNet_50", "time", None, 1248331.472, 1.248331472e6),
    ("GPT_3", "time-times-cost", [500, 300, 197.0457, 2.9543], 743326521, 9.614371111e15),
    ("ResNet_50", "time-times-cost", [500, 300, 194.9544, 5.0456], 1248331.472, 1.671724499e13),
]


@pytest.mark.parametrize(("model", "objective", "bandwidth", "time_ns", "value"), MULTIPLE)
def test_several_constraints(
    model: str, objective: str, bandwidth: list[float] | None, time_ns: float, value: float
) -> None:
    """Four dimensions, 1000 GB/s, the first 500, in falling order, the last two 200 together."""
    document = published(model, "4d", total=1000.0, objective=objective)
    names = [one["name"] for one in document["network"]["dimensions"]]
    document["network"]["constraints"] = [
        {"name": "first", "terms": {names[0]: 1.0}, "equals": 500.0},
        {"name": "falling-1", "terms": {names[0]: 1.0, names[1]: -1.0}, "at_least": 0.0},
        {"name": "falling-2", "terms": {names[1]: 1.0, names[2]: -1.0}, "at_least": 0.0},
        {"name": "last", "terms": {names[2]: 1.0, names[3]: 1.0}, "equals": 200.0},
    ]
    found = solved(document)
    assert found.objective.value == pytest.approx(value, rel=1e-7)
    assert found.figures.time_ns == pytest.approx(time_ns, rel=1e-7 if objective == "time" else 1e-4)
    if bandwidth is not None:
        assert found.plan.bandwidth_gbytes_per_s == pytest.approx(bandwidth, rel=1e-3)


OVERLAP = [
    ("GPT_3", "3d", "time", [360.6181, 122.4374, 16.9445], 707.671221e6, 1.025114),
    ("MSFT_1T", "3d", "time", [382.7474, 22.3269, 94.9256], 191.999377e6, 1.166868),
    ("GPT_3", "3d", "time-times-cost", [480.1504, 17.4365, 2.4131], 742.490542e6, 0.977041),
    ("GPT_3", "4d", "time", [333.7679, 83.4420, 62.5815, 20.2086], 704.353622e6, 1.032174),
    ("MSFT_1T", "4d", "time", [306.1962, 89.3072, 9.5686, 94.9279], 191.999377e6, 1.191896),
    ("GPT_3", "4d", "time-times-cost", [461.1488, 32.2123, 5.0184, 1.6205], 789.646783e6, 0.920684),
]


@pytest.mark.parametrize(("model", "shape", "objective", "bandwidth", "time_ns", "speedup"), OVERLAP)
def test_overlap_of_data_parallelism(
    model: str, shape: str, objective: str, bandwidth: list[float], time_ns: float, speedup: float
) -> None:
    """The loop in which the weight gradient runs beside the communication of the input gradient."""
    found = solved(published(model, shape, loop="dp-overlap", objective=objective))
    assert found.status is Status.OPTIMAL
    assert found.figures.time_ns == pytest.approx(time_ns, rel=1e-7 if objective == "time" else 1e-4)
    assert found.plan.bandwidth_gbytes_per_s == pytest.approx(bandwidth, rel=1e-3)
    assert found.figures.speedup_over_equal == pytest.approx(speedup, rel=1e-4)


@pytest.mark.parametrize(
    ("model", "shape", "mean", "largest"),
    [
        ("GPT_3", "3d", 1.080, 1.241),
        ("GPT_3", "4d", 1.099, 1.301),
        ("ResNet_50", "3d", 1.348, 1.874),
        ("ResNet_50", "4d", 1.384, 1.965),
    ],
)
def test_totals_from_100_to_1000(model: str, shape: str, mean: float, largest: float) -> None:
    """Speed over the equal split at ten totals: mean and largest, which is at the least total."""
    speeds = [solved(published(model, shape, total=100.0 * k)).figures.speedup_over_equal for k in range(1, 11)]
    assert sum(speeds) / len(speeds) == pytest.approx(mean, abs=6e-4)
    assert max(speeds) == speeds[0] == pytest.approx(largest, abs=6e-4)
