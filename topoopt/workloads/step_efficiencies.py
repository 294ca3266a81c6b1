"""How much of their peaks accelerators reach in training, fitted to published runs, with the spread of each number.

`python -m tests.benchmarks step-times` fits them again and judges the fit on runs left out. Products, attention and
memory start from measured kernels: without that the fit trades one against the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from topoopt.core.llm_training import LanguageModel, NumberFormats, ReachedRates, StateSpace
from topoopt.core.parallelism import Overlap


class FittedNumber(NamedTuple):
    """One number.

    Attributes:
        value: of the fit, or of measured kernels where runs cannot tell it from others.
        spread: of its logarithm, the larger of curvature and jackknife; 0: a constant.
        start, prior: where the fit starts, and the standard deviation of the logarithm around that.
        least, most: bounds.
        meaning: what it multiplies, with its unit.
    """

    value: float
    spread: float
    start: float
    prior: float
    least: float
    most: float
    meaning: str


F = FittedNumber
STEP_EFFICIENCIES: Mapping[str, FittedNumber] = MappingProxyType(
    {
        "products_a100": F(0.8719, 0.033, 0.85, 0.10, 0.2, 1.0, "of the 16-bit peak, A100"),
        "products_h100": F(0.7085, 0.035, 0.70, 0.10, 0.2, 1.0, "of the 16-bit peak, H100, H200, H800"),
        "products_b200": F(0.5567, 0.034, 0.66, 0.10, 0.2, 1.0, "of the 16-bit peak, B200, GB200"),
        "products_mi300": F(0.4634, 0.103, 0.50, 0.20, 0.2, 1.0, "of the 16-bit peak, MI300X, MI325X"),
        "products_tpu": F(0.5518, 0.034, 0.58, 0.20, 0.2, 1.0, "of the 16-bit peak, TPU"),
        "fp8_h100": F(0.7377, 0.062, 0.62, 0.10, 0.2, 1.0, "of the 8-bit peak, H100"),
        "fp8_b200": F(0.5695, 0.05, 0.58, 0.10, 0.2, 1.0, "of the 8-bit peak, B200, GB200"),
        "fp8_other": F(0.7343, 0.217, 0.75, 0.20, 0.2, 1.0, "share of the 8-bit peak over that of the 16-bit peak"),
        "fp4_b200": F(0.5422, 0.178, 0.50, 0.20, 0.1, 1.0, "of the 4-bit peak, B200, GB200"),
        "series_300": F(1.217, 0.041, 1.08, 0.05, 1.0, 1.3, "products and attention of B300, GB300 over B200, GB200"),
        "grouped": F(1.0, 0.0, 1.0, 0.0, 0.2, 1.0, "products of experts over plain ones, 16 bits"),
        "grouped_low": F(0.8292, 0.083, 0.85, 0.20, 0.2, 1.0, "the same, 8 and 4 bits"),
        "grouped_tpu": F(0.6913, 0.076, 0.50, 0.20, 0.1, 1.0, "the same, TPU"),
        "grouped_odd": F(0.356, 0.049, 0.40, 0.30, 0.1, 1.0, "where neither width is a multiple of 128, over others"),
        "attention_a100": F(0.3683, 0.04, 0.45, 0.15, 0.1, 1.0, "of the 16-bit peak, both passes, A100"),
        "attention_h100": F(0.3729, 0.062, 0.50, 0.15, 0.1, 1.0, "the same, H100"),
        "attention_b200": F(0.4692, 0.059, 0.45, 0.15, 0.1, 1.0, "the same, B200"),
        "attention_tpu": F(0.43, 0.0, 0.43, 0.0, 0.1, 1.0, "the same, TPU"),
        "attention_plain": F(0.6169, 0.059, 0.70, 0.20, 0.2, 1.0, "FlashAttention-2 on H100 over its own kernels"),
        "memory": F(0.83, 0.0, 0.83, 0.0, 0.3, 1.0, "of the rate of memory"),
        "between": F(0.5634, 0.197, 1.0, 0.30, 0.1, 4.0, "bytes between products over those of fused kernels"),
        "eager": F(2.5, 0.0, 2.5, 0.0, 1.0, 4.0, "of these where nothing is fused, over where it is"),
        "expert_between": F(1.148, 0.563, 1.50, 0.40, 0.4, 6.0, "bytes of gates and permutations over the least"),
        "state_between": F(7.871, 0.117, 6.0, 0.50, 0.3, 40.0, "bytes of a state-space layer over 80 a channel"),
        "quantised": F(3.141, 0.107, 1.0, 0.30, 0.1, 6.0, "bytes that 8- and 4-bit formats move over the least"),
        "layer_us": F(200.0, 0.0, 200.0, 0.0, 5.0, 1e3, "us of a layer and micro-batch"),
        "expert_us": F(1688, 0.344, 400.0, 0.40, 10.0, 1e4, "us of a layer of experts and micro-batch"),
        "graphs": F(0.3, 0.0, 0.3, 0.0, 0.0, 1.0, "of these under graphs of a whole step"),
        "new_experts": F(0.6605, 0.067, 0.80, 0.15, 0.4, 1.2, "computing of experts on Grace, newest releases"),
        "tensor_rate": F(0.83, 0.0, 0.83, 0.0, 0.3, 1.0, "of the rate of links, tensor transfers"),
        "tensor_open": F(0.5747, 0.177, 0.40, 0.40, 0.02, 1.0, "not hidden, where tensor transfers overlap"),
        "context_open": F(0.5, 0.0, 0.5, 0.0, 0.02, 1.0, "not hidden of transfers between context ranks"),
        "expert_open": F(0.5963, 0.381, 0.60, 0.30, 0.02, 1.5, "not hidden of exchanges of tokens"),
        "hop": F(1.145, 0.697, 1.0, 0.50, 0.02, 4.0, "seconds of handing over to a stage, over those of the bytes"),
        "data_rate": F(0.7634, 0.124, 0.60, 0.50, 0.1, 1.0, "of the rate, reducing and gathering of replicas"),
        "gather_rate": F(0.6104, 0.029, 0.70, 0.20, 0.2, 1.0, "the same, gathers of every pass (ZeRO 3)"),
        "replica_ms": F(
            2.467, 0.187, 2.0, 0.70, 0.01, 20.0, "ms of a rank whose weights are gathered alone (InternEvo)"
        ),
        "iteration_ms": F(51.71, 0.251, 20.0, 0.50, 0.5, 200.0, "ms of a step"),
        "own_runs": F(1.0, 0.0, 1.0, 0.0, 0.3, 3.0, "factor, runs of a table of one's own"),
        "growth": F(0.005177, 0.321, 0.005, 0.50, 1e-4, 0.05, "of the time with each doubling beyond 8 devices"),
        "nemo": F(1.004, 0.011, 1.0, 0.15, 0.6, 2.0, "factor, NeMo over Megatron-Bridge"),
        "llm_foundry": F(1.112, 0.043, 1.1, 0.15, 0.6, 2.0, "factor, llm-foundry"),
        "limited_500w": F(1.23, 0.033, 1.1, 0.15, 0.6, 2.0, "factor, H100 of 500 W"),
        "internevo": F(1.102, 0.033, 1.1, 0.15, 0.6, 2.0, "factor, InternEvo"),
        "limited_b200": F(1.19, 0.046, 1.2, 0.15, 0.6, 2.0, "factor, Megatron-LM on a power-limited B200 server"),
        "megatron_lm": F(1.138, 0.039, 1.1, 0.15, 0.6, 2.0, "factor, Megatron-LM of 2021 to 2024"),
        "maxtext": F(1.244, 0.046, 1.1, 0.15, 0.6, 2.0, "factor, MaxText and PaxML on GPUs"),
    }
)
"""38 numbers that runs tell, and constants."""


@dataclass(frozen=True)
class Software:
    """What trains: a framework and the class of its release.

    Attributes:
        factor: its number in `STEP_EFFICIENCIES`; empty: 1.
        text: with its releases.
        graphs: whole steps are one graph: never, on Grace alone, always.
        newest: layers of experts have the kernels of 2026.
        eager: what lies between products is not fused.
        plain: attention is FlashAttention-2 on Hopper.
        overlaps: tensor transfers are hidden in part.
        hides_data: reducing and gathering are hidden behind passes.
        again: share of the products that selective recomputation computes again.
        one_by_one: weights are gathered from one rank after another.
    """

    text: str
    factor: str = ""
    graphs: tuple[bool, bool] = (False, False)
    newest: bool = False
    eager: bool = False
    plain: bool = False
    overlaps: bool = True
    hides_data: bool = True
    again: float = 0.0
    one_by_one: bool = False


SOFTWARE: Mapping[str, Software] = MappingProxyType(
    {
        "megatron-bridge": Software("Megatron-Bridge 26.02 to 26.04", graphs=(False, True)),
        "megatron-bridge-25": Software("Megatron-Bridge 25.09, 25.11"),
        "megatron-bridge-26.06": Software("Megatron-Bridge from 26.06 on", graphs=(True, True), newest=True),
        "nemo": Software("NeMo 24.07 to 25.05", "nemo"),
        "torchtitan": Software("torchtitan", plain=True, again=0.5),
        "llm-foundry": Software("llm-foundry", "llm_foundry", eager=True, plain=True, overlaps=False),
        "internevo": Software("InternEvo", "internevo", eager=True, overlaps=False, hides_data=False, one_by_one=True),
        "megatron-lm": Software("Megatron-LM of 2021 to 2024", "megatron_lm", overlaps=False, hides_data=False),
        "maxtext": Software("MaxText and PaxML", "maxtext", plain=True, overlaps=False),
        "megatron-core": Software("Megatron-Core of 2024 and 2025"),
        "megatron-limited-power": Software("Megatron-LM on servers of limited power", "limited_b200", overlaps=False),
        "primus": Software("Primus"),
        "fsdp": Software("FSDP of PyTorch without compiling parts of its own", plain=True, overlaps=False),
    }
)
"""By name; the class of a release stands in it."""

DEFAULT_SOFTWARE, SHARDED_SOFTWARE = "megatron-bridge", "torchtitan"
"""Where a file names none: the second where all weights are shared out (ZeRO 3)."""


class Generation(NamedTuple):
    """Whose efficiencies a device has.

    Attributes:
        name: of the generation in `STEP_EFFICIENCIES`.
        fitted: runs of the device itself are among those fitted.
        series_300, grace: of the Blackwell family.
        links: reached share of the scale-up rate in groups of 2, of 4, and of 8 and more (nccl-tests, one server).
        factor: of devices with less power than others of their generation.
    """

    name: str
    fitted: bool = True
    series_300: bool = False
    grace: bool = False
    links: tuple[float, float, float] = (0.556, 0.689, 0.747)
    factor: str = ""


_A100_LINKS, _B200_LINKS, _GB200_LINKS = (0.557, 0.677, 0.71), (0.458, 0.614, 0.681), (0.454, 0.61, 0.70)
_MI300_LINKS, _TPU_LINKS = (0.107, 0.321, 0.692), (0.45, 0.45, 0.45)
GENERATIONS: Mapping[str, Generation] = MappingProxyType(
    {
        "a100": Generation("a100", links=_A100_LINKS),
        "a100-40": Generation("a100", links=_A100_LINKS),
        "h100": Generation("h100"),
        "h100-pcie": Generation("h100", fitted=False),
        "h100-nvl": Generation("h100", fitted=False),
        "h100-96": Generation("h100", factor="limited_500w"),
        "h800": Generation("h100", links=(0.75, 0.775, 0.8)),
        "h200": Generation("h100"),
        "h20": Generation("h100", fitted=False),
        "b100": Generation("b200", fitted=False, links=_B200_LINKS),
        "b200": Generation("b200", links=_B200_LINKS),
        "gb200": Generation("b200", grace=True, links=_GB200_LINKS),
        "b300": Generation("b200", series_300=True, links=_B200_LINKS),
        "gb300": Generation("b200", series_300=True, grace=True, links=_GB200_LINKS),
        "mi250x": Generation("mi300", fitted=False, links=_MI300_LINKS),
        "mi300x": Generation("mi300", links=_MI300_LINKS),
        "mi325x": Generation("mi300", links=_MI300_LINKS),
        "mi355x": Generation("mi300", fitted=False, links=_MI300_LINKS),
        "tpu-v4": Generation("tpu", fitted=False, links=_TPU_LINKS),
        "tpu-v5e": Generation("tpu", links=_TPU_LINKS),
        "tpu-v5p": Generation("tpu", links=_TPU_LINKS),
        "tpu-v6e": Generation("tpu", links=_TPU_LINKS),
        "tpu-v7x": Generation("tpu", links=_TPU_LINKS),
        "trainium2": Generation("tpu", fitted=False, links=_TPU_LINKS),
        "trainium3": Generation("tpu", fitted=False, links=_TPU_LINKS),
        "gaudi3": Generation("h100", fitted=False),
    }
)
"""By device. One without runs has the efficiencies of the nearest generation, and twice the half width."""

_HALF = {  # 10^9 operations of a product of half the best efficiency, and keys of attention, by measured kernels
    "a100": ((5.0, 5.0, 5.0), 600.0),
    "h100": ((3.2, 25.0, 25.0), 1000.0),
    "b200": ((5.0, 40.0, 80.0), 1500.0),
    "mi300": ((5.0, 25.0, 25.0), 1000.0),
    "tpu": ((2.0, 4.0, 4.0), 600.0),
}
FOUR_BIT_SCALES = 2.0
"""Numbers of 4 bits are scaled twice."""

ALIGNED = 128
"""Widths that are no multiple of it make grouped products slow."""


def reached_rates(
    device: str,
    software: str,
    formats: NumberFormats,
    *,
    experts: bool = False,
    odd: bool = False,
    states: bool = False,
    values: Mapping[str, float] | None = None,
) -> ReachedRates:
    """What a device reaches under a software in some formats.

    Args:
        experts: the model has experts; odd: their widths are no multiples of 128; states: it has state-space layers.
        values: of the numbers; None: those shipped.
    """
    e = {name: number.value for name, number in STEP_EFFICIENCIES.items()} if values is None else values
    own, by = GENERATIONS[device], SOFTWARE[software]
    (wide_half, *low_halves), keys = _HALF[own.name]
    more = e["series_300"] if own.series_300 else 1.0
    products = min(1.0, e[f"products_{own.name}"] * more)
    level = 2 if formats.fp4 else 1 if formats.fp8 else 0
    low = products
    if level == 1:
        low = e["fp8_h100"] if own.name == "h100" else e["fp8_b200"] * more if own.name == "b200" else 0.0
        low = low or products * e["fp8_other"]
    elif level == 2:
        low = e["fp4_b200"] * more
    attention = e["attention_" + (own.name if own.name != "mi300" else "h100")] * more
    grouped = e["grouped_tpu"] if own.name == "tpu" else e["grouped_low"] if level else e["grouped"]
    graphs = by.graphs[own.grace] or own.name == "tpu"
    factor = (
        e["own_runs"]
        * (e[by.factor] if by.factor and own.name != "tpu" else 1.0)
        * (e[own.factor] if own.factor else 1.0)
    )
    return ReachedRates(
        products=products,
        low_products=min(1.0, low),
        half_gflops=wide_half,
        low_half_gflops=(wide_half, *low_halves)[level],
        grouped=grouped * (e["grouped_odd"] if odd else 1.0),
        attention=min(1.0, attention) * (e["attention_plain"] if by.plain and own.name == "h100" else 1.0),
        half_keys=keys,
        memory=e["memory"],
        between=e["between"] * (e["eager"] if by.eager else 1.0),
        expert_between=e["expert_between"],
        state_between=e["state_between"],
        quantised=e["quantised"] * (FOUR_BIT_SCALES if level == 2 else 1.0) if level else 0.0,
        layer_us=e["layer_us"],
        expert_us=e["expert_us"] * (e["graphs"] if graphs else 1.0),
        computing=e["new_experts"] if by.newest and own.grace and experts and not states else 1.0,
        scale_up=own.links[2],
        scale_up_4=own.links[1],
        scale_up_2=own.links[0],
        network=1.0,
        tensor=e["tensor_rate"],
        context=e["context_open"],
        hop=e["hop"],
        data=e["data_rate"],
        gather=e["gather_rate"],
        again=by.again,
        iteration_ms=e["iteration_ms"],
        replica_ms=e["replica_ms"] if by.one_by_one else 0.0,
        growth=e["growth"],
        software=factor,
    )


def overlap_of(software: str, values: Mapping[str, float] | None = None) -> Overlap:
    """What a software hides behind computing.

    Args:
        values: of the numbers; None: those shipped.
    """
    e = {name: number.value for name, number in STEP_EFFICIENCIES.items()} if values is None else values
    by = SOFTWARE[software]
    return Overlap(1.0 - e["tensor_open"] if by.overlaps else 0.0, 1.0 - e["expert_open"], by.hides_data, False)


def model_rates(
    device: str, software: str, formats: NumberFormats, model: LanguageModel, values: Mapping[str, float] | None = None
) -> ReachedRates:
    """What a device reaches with a model."""
    experts = model.experts
    odd = experts is not None and experts.hidden % ALIGNED > 0 and (experts.latent or model.hidden) % ALIGNED > 0
    states = any(isinstance(kind.mixer, StateSpace) for kind in model.kinds)
    return reached_rates(device, software, formats, experts=experts is not None, odd=odd, states=states, values=values)


GROWS_FROM = 8


def slowdown_of(rates: ReachedRates, devices: int) -> float:
    """How much longer all parts of a step take for the software and the number of devices."""
    return rates.software * (1.0 + rates.growth * math.log2(max(devices, GROWS_FROM) / GROWS_FROM))


HALF_WIDTHS: Mapping[str, float] = MappingProxyType(
    {
        "a100, dense": 0.1188,
        "all": 0.171,
        "dense": 0.1357,
        "experts": 0.3026,
        "h100, dense": 0.1262,
        "llm-foundry, dense": 0.1325,
        "llm-foundry, h100": 0.1406,
        "megatron-bridge, experts": 0.3039,
        "megatron-limited-power, b200": 0.1423,
        "nemo, dense": 0.1162,
        "nemo, h100": 0.1192,
    }
)
"""Of the logarithm of an estimate, by sets of like runs: it held 92 % of the runs of each that were left out."""


def half_width_sets(software: str, device: str, kind: str) -> tuple[str, ...]:
    """Sets of like runs that a run belongs to, the narrowest first."""
    return f"{software}, {kind}", f"{software}, {device}", f"{device}, {kind}", kind, "all"


@dataclass(frozen=True)
class HalfWidth:
    """How far an estimate may be off: nine of ten times.

    Attributes:
        of_log: half width of the interval of its logarithm.
        runs: the set of runs that it comes from.
        reason: why it is twice theirs; empty: it is not.
    """

    of_log: float
    runs: str
    reason: str = ""


def half_width(device: str, software: str, kind: str, *, extrapolated: bool = False) -> HalfWidth:
    """The half width of the narrowest set of runs that has one.

    Twice that of all runs outside their range; twice that of its set for a device without runs of its own.

    Args:
        kind: dense, experts or hybrid, as `kind_of`.
    """
    if extrapolated:
        return HalfWidth(2.0 * HALF_WIDTHS["all"], "all", "outside the range of measured runs")
    name = next(name for name in half_width_sets(software, device, kind) if name in HALF_WIDTHS)
    if not GENERATIONS[device].fitted:
        text = f"no run of a {device}: efficiencies are those of {GENERATIONS[device].name}"
        return HalfWidth(2.0 * HALF_WIDTHS[name], name, text)
    return HalfWidth(HALF_WIDTHS[name], name)


def kind_of(model: LanguageModel) -> str:
    """What decides how well the time of a model is estimated."""
    if any(isinstance(kind.mixer, StateSpace) for kind in model.kinds):
        return "hybrid"
    return "experts" if model.experts is not None else "dense"
