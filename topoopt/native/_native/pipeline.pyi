from topoopt.core.arrays import Bools, Floats, Int32s, Ints

def even_stages(layers: int, p: Ints, v: Ints, first: Ints, last: Ints) -> Ints:
    """int64[R, most stages]: layers of every stage, loads of the ranks between the ends as even as can be.

    Where the chunks of a rank differ, all ranks have the longer ones at the same turns: the last turns, but for the
    last rank not the one that the head stands behind.

    Args:
        layers: of the model.
        p, v: int64[R], ranks and chunks.
        first, last: int64[R], layers of the first and of the last rank.
    """

def loads_of_ranks(p: Ints, stages: Ints) -> Ints:
    """int64[R, most ranks]: layers of every rank.

    Args:
        p: int64[R], ranks.
        stages: int64[R, most stages], layers of every stage.
    """

def balanced_stages(
    shape: Ints, seconds: Floats, held: Floats, flight: Floats, usable: float, layers: int, dense_layers: int,
    stages: Ints,
) -> Ints:  # fmt: skip
    """int64[R, most stages]: layers dealt one at a time, each to the rank that is through with it first.

    A rank has a layer only where its memory holds it. Of ranks that are through together the later one has it. Where no
    division fits, the layers given stay.

    Args:
        shape: int64[R, 2], p and v.
        seconds: float64[R, 5], of a layer without experts and one with them, of a chunk, and what the first and the
            last rank have beside.
        held: float64[R, 6], bytes of the state of a layer without experts and of one with them, of the activations of a
            layer and micro-batch, and what every, the first and the last rank have beside.
        flight: float64[R, most ranks], micro-batches that each rank keeps.
        usable: bytes of a rank.
        layers, dense_layers: of the model; those at its start without experts.
        stages: int64[R, most stages], layers where nothing fits.
    """

def stage_tables(
    seconds: Floats, exchange: Floats, hidden: Bools, layers: Ints, before: Ints, predicted_layers: int,
    predicting_kind: int,
) -> Floats:  # fmt: skip
    """float64[7 S, R]: seconds of the stages of strategies, a row for each span and stage, and numbers of layers last.

    Args:
        seconds: float64[R, 7 (kinds + 3)], seven spans of each part of stages, as `StageParts.seconds`.
        exchange: float64[R, kinds], seconds of exchanging tokens in a layer, each way.
        hidden: bool[R], whether computing hides exchanges.
        layers: int64[R, S], of every stage.
        before: int64[L + 1, kinds], layers of each kind before every layer of the model, and of all.
        predicted_layers: layers behind the last one, which predict further tokens.
        predicting_kind: of these.
    """

def order_bounds(
    seconds: Floats, exchange: Floats, hidden: Bools, layers: Ints, before: Ints, predicted_layers: int,
    predicting_kind: int, shape: Ints, hop: Floats, hiding: bool, blocking: bool,
) -> Floats:  # fmt: skip
    """float64[R]: seconds that an iteration of each strategy does not go below, for the order of its passes.

    Args:
        seconds, exchange, hidden, layers, before, predicted_layers, predicting_kind: as in `stage_tables`.
        shape: int64[R, 5], schedule (index in `PipelineSchedule`), p, v, micro-batches, ZeRO.
        hop: float64[R], seconds to the next stage.
        hiding: whether passes hide what replicas exchange.
        blocking: whether a rank waits until what it sends has arrived.
    """

def ready_times(tables: Floats, home: Ints, hiding: bool) -> Floats:
    """float64[S, R]: before when no pass of a stage starts, as its weights are gathered.

    Args:
        tables: float64[7 S, R], as `stage_tables`.
        home: int64[S], rank of each stage.
        hiding: whether passes of the layers before hide the gathering.
    """

def reduced_times(tables: Floats, done: Floats, home: Ints, split: bool, hiding: bool) -> Floats:
    """float64[R]: when the last rank has reduced its gradients, the stage that is through first before the others.

    Args:
        tables: float64[7 S, R], as `stage_tables`.
        done: float64[S, R], end of the last backward pass of each stage.
        home: int64[S], rank of each stage.
        split: whether gradients of weights are passes of their own.
        hiding: whether the last pass hides reductions of its first layers.
    """

def rank_costs(
    tables: Floats, p: int, v: int, m: int, all_passes: bool, hiding: bool, paired: bool
) -> tuple[Floats, Floats]:
    """float64[R] each: the step of the optimizer on the fullest rank; what passes do not hide of exchanges (ZeRO 3).

    Args:
        tables: float64[7 p v, R], as `stage_tables`.
        m: micro-batches.
        all_passes: whether all passes gather weights and reduce gradients (ZeRO 3); else the second result is 0.
        hiding: whether passes hide exchanges.
        paired: whether ranks hold a stage of either half (both shapes of DualPipe).
    """

class PassProgram:
    """Passes of a pipeline in a sequence in which each stands behind all that it waits for."""

    def __init__(
        self, start: Ints, passes: Int32s, rank_of_stage: Ints, before: Ints, after: Ints, model_stages: int,
        micro_batches: int, blocking: bool,
    ) -> None:  # fmt: skip
        """Put passes into sequence; arguments as the attributes of `PassOrders`.

        Args:
            blocking: a rank waits until what it sends has arrived.

        Raises:
            ValueError: passes wait for each other in a circle.
        """

    def ends(
        self, forward: Floats, inputs: Floats, weights: Floats, transfer: Floats, ready: Floats, kept: Ints
    ) -> Floats:
        """float64[kept, R]: when the passes that are asked for end. Times are whole numbers below 2^53.

        Args:
            forward, inputs, weights: float64[stages of the model, R], of passes and of both gradients.
            transfer: float64[R], from a rank to another one.
            ready: float64[stages of all copies, R], before which no pass of a stage starts.
            kept: int64, indices of passes.
        """

def zero_bubble(
    cost: Ints, transfer: int, adds: Floats, capacity: Floats, m: int, overlap_first: bool, backward_first: bool,
    greedy: bool,
) -> Int32s:  # fmt: skip
    """int32[3 p m, 3]: kind, micro-batch and stage of all passes, rank by rank, by greedy rounds (arXiv:2401.10241).

    No rows if the memory does not suffice. The three switches are those of the paper's section 4.

    Args:
        cost: int64[3, p], ticks of forward passes, gradients of inputs and gradients of weights.
        transfer: ticks to another rank.
        adds: float64[3, p], memory that each takes, or gives back if negative.
        capacity: float64[p], of memory.
        m: micro-batches.
        overlap_first: the warm-up ends before the first micro-batch is back, and not after.
        backward_first: a rank leaves forward passes that would delay its backward pass.
        greedy: gradients of weights also fill gaps that they outlast.
    """

def seat_ranks(
    switch_of: Ints, component: Ints, size: Ints, counts: Ints, free: Ints, alike: Bools, preference: Ints, nodes: int
) -> tuple[Ints | None, bool]:
    """Give every rank a class of servers so that each component stays under one switch, by depth-first search.

    A component keeps servers for all its ranks under its switch as soon as its first rank is seated. Ranks alike take
    classes in the order of preference, which leaves out equal seatings.

    Args:
        switch_of: int64[L, C], switch of a class in the planes of a line.
        component: int64[L, K], component of each rank on a line, -1: dark; numbers run on from line to line.
        size: int64[E], ranks of each component.
        counts: int64[C], free servers.
        free: int64[L, S], free servers under each switch.
        alike: bool[K], the rank stands in the same components as the one before it; not the first one.
        preference: int64[C], classes in the order they are tried, after the class of the rank before.
        nodes: seats tried before the search is cut off.

    Returns:
        int64[K], class of each rank, or None; whether the search was complete, so that None is a proof.
    """
