"""The table of models, and the expansion of a model into a workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import Operator, Split, Workload
from topoopt.workloads import bert, candle, dlrm, gpt, moe, ncf, resnet, vgg
from topoopt.workloads.parameters import ModelSpec, complete_sizes, nearest
from topoopt.workloads.spec import ACTIVATION_BYTES, CostModel, Job, OperatorSpec

MODELS: dict[str, ModelSpec] = {
    "dlrm": dlrm.MODEL,
    "candle": candle.MODEL,
    "bert": bert.MODEL,
    "vgg": vgg.MODEL,
    "resnet": resnet.MODEL,
    "ncf": ncf.MODEL,
    "gpt": gpt.MODEL,
    "moe": moe.MODEL,
}

ElementSizes = Literal["actual", "flexnet"]
"""`actual`: every activation has 4 bytes. `flexnet`: an output inherits the element size of its operator's first
input, so tables, which read 8-byte indices, send 8 bytes per element, and so does all that starts from them (the
reference search; only for comparison with it)."""

MAX_OPERATORS = 20_000
"""Largest graph that is expanded."""


def element_sizes_of(specs: tuple[OperatorSpec, ...], rule: ElementSizes) -> tuple[int, ...]:
    """Bytes of one output element of every operator, in order."""
    sizes: list[int] = []
    for spec in specs:
        if rule == "actual":
            sizes.append(ACTIVATION_BYTES)
        elif spec.source_element_bytes is not None:
            sizes.append(spec.source_element_bytes)
        else:
            sizes.append(sizes[spec.inputs[0].producer])
    return tuple(sizes)


def find_model(name: str) -> ModelSpec:
    """The model of that name.

    Raises:
        InputError: there is none; the message lists those there are.
    """
    if name not in MODELS:
        raise InputError(
            [Problem("no such model", path="workload.model", value=name, allowed=nearest(name, [*MODELS]))]
        )
    return MODELS[name]


def build_operators(model: str, sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Operators of a model without costs, in topological order.

    Raises:
        InputError: unknown model or size, value out of range, sizes that clash, graph too large.
    """
    spec = find_model(model)
    complete = complete_sizes(spec, sizes)
    # Layer and table counts multiply, so the product is bounded before anything is built.
    counts = [complete[name] for name in ("layers", "experts", "tables", "feature_layers") if name in complete]
    product = 1
    for count in counts:
        product *= count
    if product > MAX_OPERATORS:
        raise InputError(
            [Problem("the model has too many operators", path="workload.sizes", allowed=f"at most {MAX_OPERATORS}")]
        )
    return spec.build(complete)


def global_batch(model: str, sizes: Mapping[str, int], servers: int, gpus_per_server: int) -> int:
    """Samples of one iteration: `global_batch` where given, else servers * gpus_per_server * samples_per_gpu."""
    complete = complete_sizes(find_model(model), sizes)
    return complete["global_batch"] or servers * gpus_per_server * complete["samples_per_gpu"]


def assemble(
    name: str, specs: tuple[OperatorSpec, ...], job: Job, costs: CostModel, element_sizes: ElementSizes
) -> Workload:
    """Give every operator its candidate splits.

    Raises:
        InputError: all operators without a legal split, each cause once.
    """
    bytes_of = element_sizes_of(specs, element_sizes)
    problems: dict[Problem, None] = {}
    operators = []
    for spec, element_bytes in zip(specs, bytes_of, strict=True):
        splits: tuple[Split, ...] = ()
        try:
            splits = costs.splits(spec, job)
        except InputError as error:
            problems.update(dict.fromkeys(error.problems))
        operators.append(
            Operator(
                name=spec.name,
                kind=spec.kind,
                output_elements=spec.output_elements,
                element_bytes=element_bytes,
                weight_elements=spec.weight_elements,
                inputs=spec.inputs,
                splits=splits,
                mixes_channels=spec.mixes_channels,
                locally_reduced=not spec.one_gpu,
            )
        )
    if problems:
        raise InputError(list(problems))
    return Workload(name, job.samples, tuple(operators))


def build_workload(
    model: str,
    sizes: Mapping[str, int],
    *,
    servers: int,
    gpus_per_server: int,
    costs: CostModel,
    element_sizes: ElementSizes = "actual",
) -> Workload:
    """Expand a model into operators with candidate splits for n servers.

    Args:
        model: key of `MODELS`.
        sizes: sizes that differ from the model's defaults; see `MODELS[model].parameters`.
        servers: n; the parts of every split divide it.
        gpus_per_server: g.
        costs: where operator times come from.
        element_sizes: bytes per activation element on the network.

    Raises:
        InputError: all unknown names and values out of range, or all operators without a legal split.
    """
    specs = build_operators(model, sizes)
    job = Job(global_batch(model, sizes, servers, gpus_per_server), servers, gpus_per_server)
    return assemble(model, specs, job, costs, element_sizes)
