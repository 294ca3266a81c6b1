"""Model families are operator graphs by name; each is expanded into a workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.placement import GraphOperator, Tensor
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.workloads.operators import (
    ACTIVATION_BYTES,
    DEVICES,
    SCORE_PASSES,
    CostModel,
    Job,
    LayerGraph,
    ModelSpec,
    OperatorSpec,
    Parameter,
    complete_sizes,
    nearest,
    require,
    samples_per_gpu,
)


def build_dlrm(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Operators in the order of the reference: bottom MLP, tables, concat, top MLP."""
    graph = LayerGraph()
    bottom, top = sizes["bottom_width"], sizes["top_width"]
    last = graph.dense_stack("bottom", None, [bottom] * (sizes["bottom_layers"] + 1))
    tables = [
        graph.table(f"table{t}", sizes["table_rows"], sizes["embedding_dim"], sizes["lookups"])
        for t in range(sizes["tables"])
    ]
    joined = graph.concat("concat", [last, *tables])
    widths = [graph.width(joined), *([top] * sizes["top_layers"]), 1]
    graph.dense_stack("top", joined, widths)
    return tuple(graph.operators)


DLRM = ModelSpec(
    name="dlrm",
    summary="recommendation: embedding tables and two MLPs",
    parameters=(
        Parameter("tables", 16, 1, 4096, "embedding tables"),
        Parameter("table_rows", 10_000_000, 1, 10**10, "rows of a table"),
        Parameter("embedding_dim", 256, 1, 65536, "width of a row"),
        Parameter("lookups", 100, 1, 10**6, "rows summed per sample and table"),
        Parameter("bottom_width", 1024, 1, 1 << 20, "width of the bottom MLP and of the dense features"),
        Parameter("bottom_layers", 7, 1, 1024, "dense layers of the bottom MLP"),
        Parameter("top_width", 2048, 1, 1 << 20, "width of the top MLP"),
        Parameter("top_layers", 15, 1, 1024, "hidden dense layers of the top MLP, the one-wide output not counted"),
        samples_per_gpu(256),
    ),
    build=build_dlrm,
)


FEATURES = (("cell", 942), ("drug1", 5270), ("drug1_print", 2048), ("drug2", 5270), ("drug2_print", 2048))
"""Encoders: name and width of the feature vector (cell expression; descriptors and fingerprints of two drugs)."""


def build_candle(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Encoders one after the other, concat, dense stack, two one-wide layers."""
    graph = LayerGraph()
    feature, dense = sizes["feature_width"], sizes["dense_width"]
    encoded = [
        graph.dense_stack(f"{name}_", None, [width, *([feature] * sizes["feature_layers"])]) for name, width in FEATURES
    ]
    joined = graph.concat("concat", encoded, outside=2)  # the doses
    graph.dense_stack("dense", joined, [graph.width(joined), *([dense] * sizes["dense_layers"]), 1, 1])
    return tuple(graph.operators)


CANDLE = ModelSpec(
    name="candle",
    summary="CANDLE Uno: five dense encoders and a dense stack",
    parameters=(
        Parameter("feature_width", 4096, 1, 1 << 20, "width of the encoder layers"),
        Parameter("feature_layers", 12, 1, 1024, "dense layers of each of the five encoders"),
        Parameter("dense_width", 4096, 1, 1 << 20, "width of the dense stack"),
        Parameter("dense_layers", 8, 1, 1024, "wide layers of the dense stack"),
        samples_per_gpu(256),
    ),
    build=build_candle,
)


def _attend(graph: LayerGraph, name: str, query: int | None, memory: int | None, sizes: Mapping[str, int]) -> int:
    """Attention of `query` over `memory`, added to `query`; None reads from outside the graph."""
    hidden, sequence = sizes["hidden"], sizes["sequence"]
    attention = graph.attention(f"{name}_attention", [query, memory], hidden, sizes["heads"], sequence)
    return graph.add(f"{name}_add", [attention, query], sequence * hidden)


def _feed_forward(graph: LayerGraph, name: str, source: int, sizes: Mapping[str, int]) -> int:
    for index in range(2):
        source = graph.dense(f"{name}_dense{index}", source, sizes["hidden"], sizes["hidden"], rows=sizes["sequence"])
    return source


def build_bert(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Layers of ten operators and the output layer."""
    require(sizes["hidden"] % sizes["heads"] == 0, "heads", sizes, f"a divisor of hidden = {sizes['hidden']}")
    graph = LayerGraph()
    encoder: int | None = None
    decoder: int | None = None
    for layer in range(sizes["layers"]):
        name = f"layer{layer}"
        state = _attend(graph, f"{name}_encoder", encoder, encoder, sizes)
        encoder = _feed_forward(graph, f"{name}_encoder", state, sizes)
        state = _attend(graph, f"{name}_decoder", decoder, decoder, sizes)
        state = _attend(graph, f"{name}_cross", state, encoder, sizes)
        decoder = _feed_forward(graph, f"{name}_decoder", state, sizes)
    graph.dense("output", decoder, sizes["hidden"], 1, rows=sizes["sequence"])
    return tuple(graph.operators)


BERT = ModelSpec(
    name="bert",
    summary="encoder-decoder transformer of the TopoOpt paper",
    parameters=(
        Parameter("layers", 6, 1, 1024, "layers, each with three attentions"),
        Parameter("hidden", 768, 1, 1 << 20, "width"),
        Parameter("heads", 12, 1, 4096, "attention heads"),
        Parameter("sequence", 256, 1, 1 << 20, "tokens per sample"),
        samples_per_gpu(16),
    ),
    build=build_bert,
)


BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions of each block; a pool ends a block."""


def build_vgg(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Five blocks, flatten, three dense layers, softmax."""
    graph = LayerGraph()
    source: int | None = None
    side, channels = sizes["image_size"], 3
    for block, (width, count) in enumerate(BLOCKS):
        for layer in range(count):
            source, side = graph.conv(f"conv{block}_{layer}", source, side, (channels, width), 3, 1, 2)
            channels = width
        source, side = graph.pool(f"pool{block}", source, side, channels, 3, 2, 0)
    flat = channels * side * side
    source = graph.elementwise("flatten", "flat", "Flat", [source], flat)
    hidden, classes = sizes["hidden"], sizes["classes"]
    source = graph.dense_stack("dense", source, [flat, hidden, hidden, classes])
    graph.elementwise("softmax", "softmax", "Softmax", [source], classes)
    return tuple(graph.operators)


VGG = ModelSpec(
    name="vgg",
    summary="VGG16 image classifier with a wide flattened tensor",
    parameters=(
        Parameter("image_size", 229, 16, 8192, "side of the image, pixels"),
        Parameter("hidden", 4096, 1, 1 << 20, "width of the two dense layers"),
        Parameter("classes", 1000, 1, 1 << 20, "classes"),
        samples_per_gpu(64),
    ),
    build=build_vgg,
)


STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Inner channels, bottlenecks and stride of the first bottleneck of each stage."""

EXPANSION = 4
"""Output channels of a bottleneck over its inner channels."""

POOL_KERNEL = 7


def _bottleneck(
    graph: LayerGraph, name: str, source: int, side: int, channels: int, width: int, stride: int
) -> tuple[int, int]:
    """1x1, 3x3, 1x1 convolutions, a projection where the shape changes, add, ReLU."""
    outputs = EXPANSION * width
    inner, _ = graph.conv(f"{name}_conv0", source, side, (channels, width), 1, 1, 0)
    inner, out = graph.conv(f"{name}_conv1", inner, side, (width, width), 3, stride, 1)
    inner, _ = graph.conv(f"{name}_conv2", inner, out, (width, outputs), 1, 1, 0)
    if stride > 1 or channels != outputs:
        source, _ = graph.conv(f"{name}_project", source, side, (channels, outputs), 1, stride, 0)
    elements = outputs * out * out
    total = graph.add(f"{name}_add", [source, inner], elements)
    return graph.elementwise(f"{name}_relu", "relu", "ElementUnary_13", [total], elements), out


def build_resnet(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Stem, sixteen bottlenecks, pool, dense, softmax."""
    graph = LayerGraph()
    source, side = graph.conv("stem", None, sizes["image_size"], (3, 64), 7, 2, 3)
    source, side = graph.pool("stem_pool", source, side, 64, 3, 2, 1)
    channels = 64
    for stage, (width, count, first_stride) in enumerate(STAGES):
        for block in range(count):
            stride = first_stride if block == 0 else 1
            source, side = _bottleneck(graph, f"stage{stage}_{block}", source, side, channels, width, stride)
            channels = EXPANSION * width
    require(side >= POOL_KERNEL, "image_size", sizes, "at least 193, so that the last pool has a 7x7 window")
    source, _ = graph.pool("pool", source, side, channels, POOL_KERNEL, 1, 0)
    flat = graph.width(source)
    source = graph.elementwise("flatten", "flat", "Flat", [source], flat)
    source = graph.dense("dense", source, flat, sizes["classes"])
    graph.elementwise("softmax", "softmax", "Softmax", [source], sizes["classes"])
    return tuple(graph.operators)


RESNET = ModelSpec(
    name="resnet",
    summary="ResNet50 image classifier",
    parameters=(
        Parameter("image_size", 229, 193, 8192, "side of the image, pixels"),
        Parameter("classes", 10, 1, 1 << 20, "classes"),
        samples_per_gpu(128),
    ),
    build=build_resnet,
)


def build_ncf(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Tables, product branch, MLP branch, join, output."""
    graph = LayerGraph()

    def tables(prefix: str, dim: int) -> list[int]:
        return [graph.table(f"{prefix}{t}", sizes["table_rows"], dim, sizes["lookups"]) for t in range(sizes["tables"])]

    gmf_user = tables("gmf_user", sizes["gmf_dim"])
    gmf_item = tables("gmf_item", sizes["gmf_dim"])
    mlp_user = tables("mlp_user", sizes["mlp_dim"])
    mlp_item = tables("mlp_item", sizes["mlp_dim"])
    joined = graph.concat("mlp_concat", [*mlp_user, *mlp_item])
    user = graph.concat("gmf_user_concat", gmf_user)
    item = graph.concat("gmf_item_concat", gmf_item)
    product = graph.elementwise("gmf_multiply", "multiply", "ElementBinary_32", [user, item], graph.width(user))
    gmf = graph.dense("gmf_output", product, graph.width(product), 1)
    mlp = graph.dense_stack("mlp", joined, [graph.width(joined), *([sizes["mlp_width"]] * sizes["mlp_layers"])])
    both = graph.concat("concat", [gmf, mlp])
    graph.dense("output", both, graph.width(both), 1)
    return tuple(graph.operators)


NCF = ModelSpec(
    name="ncf",
    summary="neural collaborative filtering: four families of tables, a product and an MLP branch",
    parameters=(
        Parameter("tables", 32, 1, 1024, "tables in each of the four families"),
        Parameter("table_rows", 1_000_000, 1, 10**10, "rows of a table"),
        Parameter("gmf_dim", 64, 1, 65536, "row width in the product branch"),
        Parameter("mlp_dim", 128, 1, 65536, "row width in the MLP branch"),
        Parameter("lookups", 100, 1, 10**6, "rows summed per sample and table"),
        Parameter("mlp_width", 4096, 1, 1 << 20, "width of the MLP"),
        Parameter("mlp_layers", 8, 1, 1024, "dense layers of the MLP"),
        samples_per_gpu(128),
    ),
    build=build_ncf,
)


def _attention_core(graph: LayerGraph, name: str, qkv: int, sizes: Mapping[str, int], units: int) -> int:
    """Softmax(q k) v of all heads, without weights; a head needs only its own share of the projections."""
    hidden, sequence = sizes["hidden"], sizes["sequence"]
    return graph.add_spec(
        OperatorSpec(
            name=name,
            kind="attention",
            key=f"AttentionCore_{hidden}_{sizes['heads']}",
            inputs=(OperatorInput(qkv),),
            input_elements=3 * sequence * hidden,
            output_elements=sequence * hidden,
            forward_flops=4.0 * sequence * sequence * hidden,
            scratch_elements=SCORE_PASSES * sizes["heads"] * sequence * sequence,
            kernels=3,  # scores, softmax, weighted sum
            mixes_channels=False,
            channel_units=units,
        )
    )


def build_gpt(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Token embedding, pre-norm blocks of nine operators, final norm, output layer."""
    hidden, heads, sequence, inner = sizes["hidden"], sizes["heads"], sizes["sequence"], sizes["feed_forward"]
    require(hidden % heads == 0, "heads", sizes, f"a divisor of hidden = {hidden}")
    graph = LayerGraph()

    def units(count: int) -> int:
        return count if sizes["tensor_parallel"] else 1

    def dense(name: str, source: int, inputs: int, outputs: int, columns: int, rows: int) -> int:
        return graph.dense(
            name, source, inputs, outputs, rows=sequence, channel_units=units(columns), reduce_units=units(rows)
        )

    def add(name: str, first: int, second: int) -> int:
        return graph.add(name, [first, second], sequence * hidden, channel_units=units(hidden))

    state = graph.token_embedding("tokens", sizes["vocabulary"], hidden, sequence)
    for layer in range(sizes["layers"]):
        name = f"layer{layer}"
        normed = graph.norm(f"{name}_norm0", state, hidden, sequence)
        qkv = dense(f"{name}_qkv", normed, hidden, 3 * hidden, heads, hidden)
        core = _attention_core(graph, f"{name}_attention", qkv, sizes, units(heads))
        projected = dense(f"{name}_project", core, hidden, hidden, hidden, heads)
        state = add(f"{name}_add0", projected, state)
        normed = graph.norm(f"{name}_norm1", state, hidden, sequence)
        up = dense(f"{name}_up", normed, hidden, inner, inner, hidden)
        down = dense(f"{name}_down", up, inner, hidden, hidden, inner)
        state = add(f"{name}_add1", down, state)
    normed = graph.norm("norm", state, hidden, sequence)
    dense("output", normed, hidden, sizes["vocabulary"], sizes["vocabulary"], hidden)
    return tuple(graph.operators)


GPT = ModelSpec(
    name="gpt",
    summary="decoder-only transformer; tensor parallelism is a choice",
    parameters=(
        Parameter("layers", 8, 1, 1024, "transformer blocks"),
        Parameter("hidden", 2048, 1, 1 << 20, "width"),
        Parameter("heads", 16, 1, 4096, "attention heads"),
        Parameter("feed_forward", 8192, 1, 1 << 22, "inner width of the dense pair"),
        Parameter("sequence", 512, 1, 1 << 20, "tokens per sample"),
        Parameter("vocabulary", 32768, 1, 1 << 22, "tokens known"),
        Parameter("tensor_parallel", 1, 0, 1, "1: operators may also be cut by channels; 0: by samples only"),
        samples_per_gpu(2),
    ),
    build=build_gpt,
)


def _expert(graph: LayerGraph, name: str, state: int, router: int, sizes: Mapping[str, int]) -> int:
    hidden, inner = sizes["hidden"], sizes["feed_forward"]
    fraction = sizes["top_k"] / sizes["experts"]
    elements = sizes["sequence"] * hidden * sizes["top_k"] // sizes["experts"]
    return graph.add_spec(
        OperatorSpec(
            name=name,
            kind="expert",
            key=f"Expert_{hidden}_{inner}",
            inputs=(OperatorInput(state, fraction), OperatorInput(router, fraction)),
            input_elements=elements,
            output_elements=elements,
            weight_elements=(hidden * inner, inner, inner * hidden, hidden),
            forward_flops=4.0 * elements * inner,
        )
    )


def _combine(graph: LayerGraph, name: str, state: int, router: int, experts: list[int]) -> int:
    sources = [state, router, *experts]
    return graph.add_spec(
        OperatorSpec(
            name=name,
            kind="combine",
            key=f"Combine_{len(experts)}",
            inputs=tuple(OperatorInput(index) for index in sources),
            input_elements=sum(graph.width(index) for index in sources),
            output_elements=graph.width(state),
            forward_flops=2.0 * sum(graph.width(index) for index in experts),
        )
    )


def build_moe(sizes: Mapping[str, int]) -> tuple[OperatorSpec, ...]:
    """Token embedding, blocks of attention and experts, output layer."""
    hidden, heads, sequence = sizes["hidden"], sizes["heads"], sizes["sequence"]
    experts, top_k = sizes["experts"], sizes["top_k"]
    require(hidden % heads == 0, "heads", sizes, f"a divisor of hidden = {hidden}")
    require(top_k <= experts, "top_k", sizes, f"at most experts = {experts}")
    require(sequence * top_k % experts == 0, "experts", sizes, f"a divisor of sequence * top_k = {sequence * top_k}")
    graph = LayerGraph()
    state = graph.token_embedding("tokens", sizes["vocabulary"], hidden, sequence)
    for layer in range(sizes["layers"]):
        name = f"layer{layer}"
        attention = graph.attention(f"{name}_attention", [state], hidden, heads, sequence)
        state = graph.add(f"{name}_add", [attention, state], sequence * hidden)
        router = graph.dense(f"{name}_router", state, hidden, experts, rows=sequence, kind="router")
        bank = [_expert(graph, f"{name}_expert{e}", state, router, sizes) for e in range(experts)]
        state = _combine(graph, f"{name}_combine", state, router, bank)
    graph.dense("output", state, hidden, sizes["vocabulary"], rows=sequence)
    return tuple(graph.operators)


MOE = ModelSpec(
    name="moe",
    summary="mixture-of-experts transformer; each expert is placed on its own",
    parameters=(
        Parameter("layers", 4, 1, 1024, "blocks, each with one bank of experts"),
        Parameter("hidden", 1024, 1, 1 << 20, "width"),
        Parameter("heads", 16, 1, 4096, "attention heads"),
        Parameter("sequence", 512, 1, 1 << 20, "tokens per sample"),
        Parameter("experts", 16, 1, 4096, "experts in a bank"),
        Parameter("top_k", 2, 1, 4096, "experts per token"),
        Parameter("feed_forward", 4096, 1, 1 << 22, "inner width of an expert"),
        Parameter("vocabulary", 32768, 1, 1 << 22, "tokens known"),
        samples_per_gpu(4),
    ),
    build=build_moe,
)


MODELS: dict[str, ModelSpec] = {
    "dlrm": DLRM,
    "candle": CANDLE,
    "bert": BERT,
    "vgg": VGG,
    "resnet": RESNET,
    "ncf": NCF,
    "gpt": GPT,
    "moe": MOE,
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
    if math.prod(counts) > MAX_OPERATORS:
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


UNCHECKED_GIB = 1 << 40
"""Memory of a device when single operators are not to be checked against it: the placement does that."""


@dataclass(frozen=True)
class ForwardNode:
    """A forward operator and its backward half.

    Attributes:
        name: unique.
        forward_ms, backward_ms: times.
        memory_bytes: resident, of both halves.
        inputs: (producer by index, bytes read); every producer stands before.
    """

    name: str
    forward_ms: float
    backward_ms: float
    memory_bytes: int
    inputs: tuple[tuple[int, int], ...]


PlacementGraph = tuple[tuple[GraphOperator, ...], tuple[Tensor, ...]]
"""Operators of one device class, and their tensors."""


def graph_of(nodes: Sequence[ForwardNode], *, training: bool) -> PlacementGraph:
    """The graph of one pass, or of both.

    A node's output is one tensor for all consumers that read the same number of bytes. In training the backward half
    shares the device of the forward one, waits for it, and sends each producer's half the gradient of what was read.
    """
    n = len(nodes)
    labels = [node.name if training else None for node in nodes]
    operators = [
        GraphOperator(node.name, (node.forward_ms,), node.memory_bytes, label)
        for node, label in zip(nodes, labels, strict=True)
    ]
    readers: dict[tuple[int, int], list[int]] = {}
    for index, node in enumerate(nodes):
        for producer, size in dict.fromkeys(node.inputs):
            readers.setdefault((producer, size), []).append(index)
    tensors = [Tensor(producer, tuple(users), size) for (producer, size), users in readers.items()]
    if training:
        operators += [
            GraphOperator(f"{node.name}/backward", (node.backward_ms,), 0, label, backward=True)
            for node, label in zip(nodes, labels, strict=True)
        ]
        tensors += [Tensor(index, (n + index,), 0) for index in range(n)]  # the stash never leaves the device
        tensors += [
            Tensor(n + index, (n + producer,), size)
            for index, node in enumerate(nodes)
            for producer, size in dict.fromkeys(node.inputs)
        ]
    return tuple(operators), tuple(sorted(tensors, key=lambda tensor: tensor.producer))


def nodes_of(workload: Workload) -> list[ForwardNode]:
    """Nodes of a job of which every operator runs whole on one device: the split of one part.

    Raises:
        InputError: operators that have no such split, all named.
    """
    nodes, problems = [], []
    for operator in workload.operators:
        whole = next((split for split in operator.splits if split.parts == 1), None)
        if whole is None:
            problems.append(Problem("the operator cannot run on one device", value=operator.name))
            continue
        inputs = []
        for edge in operator.inputs:
            producer = workload.operators[edge.producer]
            elements = workload.samples * producer.output_elements * edge.fraction
            inputs.append((edge.producer, round(elements * producer.element_bytes)))
        nodes.append(
            ForwardNode(operator.name, whole.forward_ms, whole.backward_ms, whole.server_memory_bytes, tuple(inputs))
        )
    raise_any(problems)
    return nodes


def model_graph(model: str, sizes: dict[str, int], device: str, *, training: bool) -> PlacementGraph:
    """A model of the library on devices of one GPU each.

    Raises:
        InputError: unknown model, device or size, or a size out of range.
    """
    if device not in DEVICES:
        raise InputError([Problem("no such device", path="workload.device", value=device, allowed=", ".join(DEVICES))])
    from dataclasses import replace

    costs: CostModel = replace(DEVICES[device], memory_gib=UNCHECKED_GIB)
    workload = build_workload(model, sizes, servers=1, gpus_per_server=1, costs=costs)
    return graph_of(nodes_of(workload), training=training)


MAX_NODES = 10_000
"""Forward operators of a generated graph."""

BACKWARD_FACTOR = 2.0
"""A backward pass takes about twice the time of the forward one (gradients of inputs and of weights)."""


class _BranchyBuilder:
    """Appends nodes with drawn times and sizes."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.nodes: list[ForwardNode] = []
        self._bytes: list[int] = []

    def add(self, name: str, inputs: list[int], *, work: float = 1.0, scale: float = 1.0) -> int:
        """A node of about `work` ms, whose output has about `scale` x 8 MiB, and three times that in memory."""
        forward = round(float(work * self._rng.uniform(0.5, 1.5)), 6)
        size = round(float(scale * 8 * MIB * 2.0 ** self._rng.uniform(-1, 1)))
        sources = tuple((index, self._bytes[index]) for index in inputs)
        self.nodes.append(ForwardNode(name, forward, round(BACKWARD_FACTOR * forward, 6), 3 * size, sources))
        self._bytes.append(size)
        return len(self.nodes) - 1

    def draw(self, most: int) -> int:
        return int(self._rng.integers(1, most + 1))

    def pick(self, members: list[int], count: int) -> list[int]:
        return sorted(int(i) for i in self._rng.choice(members, size=min(count, len(members)), replace=False))


def _moe(build: _BranchyBuilder, layers: int, branches: int) -> None:
    state = build.add("tokens", [], work=0.2)
    for layer in range(layers):
        attention = build.add(f"layer{layer}_attention", [state], work=2.0)
        router = build.add(f"layer{layer}_router", [attention], work=0.1, scale=0.01)
        bank = [
            build.add(f"layer{layer}_expert{e}", [attention, router], scale=1.0 / branches) for e in range(branches)
        ]
        state = build.add(f"layer{layer}_combine", [attention, *bank], work=0.2)
    build.add("output", [state])


def _towers(build: _BranchyBuilder, layers: int, branches: int) -> None:
    tops = []
    for tower in range(branches):
        state = build.add(f"tower{tower}_input", [], work=0.2)
        for layer in range(layers):
            state = build.add(f"tower{tower}_layer{layer}", [state])
        tops.append(state)
    state = build.add("interaction", tops, work=0.5)
    for layer in range(max(1, layers // 2)):
        state = build.add(f"top{layer}", [state])


def _inception(build: _BranchyBuilder, layers: int, branches: int) -> None:
    state = build.add("stem", [])
    for layer in range(layers):
        ends = []
        for branch in range(branches):
            end = state
            for depth in range(build.draw(3)):
                end = build.add(f"block{layer}_branch{branch}_{depth}", [end], scale=1.0 / branches)
            ends.append(end)
        state = build.add(f"block{layer}_concat", ends, work=0.1)


def _layered(build: _BranchyBuilder, layers: int, branches: int) -> None:
    before = [build.add(f"layer0_{index}", []) for index in range(branches)]
    for layer in range(1, layers):
        now = []
        for index in range(branches):
            now.append(build.add(f"layer{layer}_{index}", build.pick(before, build.draw(3))))
        before = now


GRAPH_FAMILIES: Mapping[str, Callable[[_BranchyBuilder, int, int], None]] = {
    "moe": _moe,
    "towers": _towers,
    "inception": _inception,
    "layered": _layered,
}
"""Mixture of experts, towers joined at the top, blocks of unequal branches, and random layers."""

_NODES_PER_BRANCH = {"inception": 3}


def branchy_graph(family: str, layers: int, branches: int, seed: int, *, training: bool) -> PlacementGraph:
    """A generated graph; equal arguments, equal graph.

    Raises:
        InputError: no such family, or too many nodes.
    """
    if family not in GRAPH_FAMILIES:
        allowed = ", ".join(GRAPH_FAMILIES)
        raise InputError([Problem("no such family of graphs", path="generator.family", value=family, allowed=allowed)])
    if layers * (branches * _NODES_PER_BRANCH.get(family, 1) + 3) > MAX_NODES:
        value = f"{layers} layers of {branches} branches"
        allowed = f"at most {MAX_NODES} operators"
        raise InputError([Problem("the graph is too large", path="generator", value=value, allowed=allowed)])
    build = _BranchyBuilder(seed)
    GRAPH_FAMILIES[family](build, layers, branches)
    return graph_of(build.nodes, training=training)
