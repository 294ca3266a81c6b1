"""Training jobs: strategy, topology and routes by a method or by hand, and the result that they amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from formulations.job_plans import EventLaw, Quantity, StrategyChoice
from solvers.job.alternate import plan_on
from solvers.job.fabrics import FabricSearch, compare_fabrics
from solvers.job.loop import LoopResult, OnIncumbent
from solvers.job.methods import (
    AUTO_PROGRAMS,
    METHODS,
    SharedPlan,
    allreduce_problems,
    best_order,
    default_budget,
    run_method,
)
from solvers.job.realise import routes_of_pairs
from solvers.job.starts import data_parallel
from solvers.job.strategy_program import MOST_COEFFICIENTS, QUICK_COEFFICIENTS, prove
from solvers.network.assembly import switched
from solvers.stop import Stop
from topoopt.core.arrays import Ints, bytes_per_ms
from topoopt.core.cluster import Cluster, LinkDirection, LinkSharing
from topoopt.core.collective import GroupSchedule
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.job import (
    Baseline,
    ComparedStrategy,
    CoOptimisation,
    FabricChoice,
    JobPlan,
    OtherFabrics,
    ScheduleRows,
    SearchLog,
    SwitchRows,
    joint_certificate,
    strategy_certificate,
)
from topoopt.core.network import LinkTree
from topoopt.core.price_book import PriceBook
from topoopt.core.proofs import Bound, Tolerance, settle
from topoopt.core.result import AllReduceChoice, Certificate, JobSearchSettings, SearchResult
from topoopt.core.topology import Topology, strongly_connected
from topoopt.core.workload import (
    GroupRings,
    PathTable,
    Placement,
    Ring,
    Strategy,
    StrategyCase,
    StrategyCertificate,
    StrategyCut,
    Workload,
    strided_groups,
)
from topoopt.costs import default_price_book
from topoopt.files.documents import parse_document
from topoopt.files.issues import Path, path_text
from topoopt.kinds.job.figures import JobResult, continued, job_figures
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.kinds.pipeline import concluded
from topoopt.simulate.fabrics import FABRICS, FabricOptions, choice_problems, options_of
from topoopt.simulate.network import Network
from topoopt.verify.job.bounds import compute_bounds, instance_bounds, strategies_in_turn
from topoopt.verify.job.check import at_root, laws_of, strategy_bound
from topoopt.verify.job.least_times import Choices, choices_of
from topoopt.verify.job.strategy_laws import OF_SLICES, StrategyLaws, mirrored, states_of
from topoopt.verify.laws.networks import check_network

SEARCH_SHARE = 0.7
"""Part of a time limit for the search; bounds, other fabrics and the check have the rest."""

QUICK_S = 5.0
"""Time left below which the strategy program is tried only where it takes well under a second."""

COMPARED_SERVERS = 1024
"""Servers up to which `solve` compares a plan with other fabrics: their routes of all pairs take gigabytes beyond."""

FABRICS_OF: Path = ("baselines", "fabrics")
"""Path of the other fabrics in an instance."""

MAX_PARITY_SERVERS = 128
"""Beyond, traffic of even and of odd servers is not separated: for DLRM on 432 and 1024 that proved no more."""

PARTS = 16
"""One route of so many is written to measure how long all take."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JobSearch(SearchResult[JobPlan]):
    """What a search of strategy and topology returns.

    Attributes:
        log: starting plan and progress of the search.
        fabrics: how other fabrics are searched; None: not at all.
    """

    log: SearchLog
    fabrics: FabricSearch | None = None


def searched(name: str, problem: CoOptimisation, effort: Effort) -> JobSearch:
    """Return strategy, topology and routes by one method, for every way in which links may be shared.

    Raises:
        InfeasibleError: No plan satisfies the constraints.
        InputError: The job is too large for the method.
    """
    cluster, workload, search = problem.cluster, problem.workload, effort.search
    proposals = default_budget(cluster, workload) if search.budget is None else search.budget
    done = 0

    def progress(phase: str, made: int, best_ms: float) -> None:
        nonlocal done
        done += made
        effort.tell(f"{phase}: best {best_ms:.3f} ms", done, proposals)

    effort.tell("start", 0, proposals)
    compared = not effort.options.objective_only and cluster.servers <= COMPARED_SERVERS
    fabrics = fabric_search(problem, proposals // 20, search.seed, effort.options.book) if compared else None

    def run(on: Cluster, budget: int, stop: Stop, keep: OnIncumbent) -> LoopResult:
        return run_method(
            name,
            on,
            workload,
            budget=budget,
            seed=search.seed,
            stop=stop,
            progress=progress,
            robust=problem.search.robust,
            allreduce=problem.search.allreduce,
            on_incumbent=keep,
            jobs=effort.options.jobs,
            crew=effort.options.crew,
        )

    def made(best: SharedPlan) -> JobSearch:
        return _search_of(best[0], best[1].link_sharing, effort, fabrics)

    best = best_order(
        cluster,
        problem.sharings,
        run,
        budget=proposals,
        stop=effort.stop,
        on_incumbent=lambda best: effort.keep(lambda: made(best())),
    )
    return made(best)


def _search_of(
    result: LoopResult, sharing: LinkSharing, effort: Effort, fabrics: FabricSearch | None = None
) -> JobSearch:
    joint = result.joint
    return JobSearch(
        plan=JobPlan.of(result.plan, sharing),
        certificates=() if joint is None else (joint_certificate(joint.bound_ms, joint.tree),),
        stopped_by=result.stopped_by,
        method=effort.search.method,
        log=SearchLog(result.initial_ms, result.convergence),
        fabrics=fabrics,
        notes=result.notes,
    )


def assemble(problem: CoOptimisation, search: JobSearch, effort: Effort) -> JobResult:
    """Return the result of a search: its plan simulated once more, bounded, and compared with other fabrics."""
    problem = replace(problem, book=effort.options.book)
    shared = problem.shared_as(search.plan.link_sharing)
    objective = job_figures(problem, search.plan).objective
    proven, certificates = _bound(shared, effort)
    baselines, notes = _baselines(shared, search, effort)
    plan = replace(search.plan, comparison=_comparison(problem, search, baselines))
    continued(problem, search.plan, plan, baselines)
    verdict = settle(objective.value, (proven,), Tolerance.ROUNDING)
    compared = replace(
        search,
        plan=plan,
        certificates=(*certificates, *search.certificates),
        notes=(*search.notes, *notes),
    )
    return replace(concluded(problem, compared, objective, verdict, effort.search.seed), log=search.log)


def _bound(problem: CoOptimisation, effort: Effort) -> tuple[Bound, tuple[Certificate, ...]]:
    """Return the best bound there is time for: of compute, of traffic, of the strategy program."""
    cluster, workload = problem.cluster, problem.workload
    formulas = effort.optional("bound on traffic", lambda: instance_bounds(cluster, workload))
    if formulas is None:
        return max(compute_bounds(cluster, workload), key=lambda bound: bound.value), ()
    quick = _time_is_short(effort, QUICK_S)
    if effort.search.method == "joint" and not quick:
        on_rings = problem.search.allreduce is AllReduceChoice.RINGS
        in_turn = effort.optional(
            "bounds of strategies in turn", lambda: strategies_in_turn(cluster, workload, on_rings=on_rings)
        )
        formulas = formulas if in_turn is None else (*formulas, in_turn)
    proven = effort.optional(
        "bound of the strategy program",
        lambda: prove_bound(
            cluster,
            workload,
            quick=quick,
            formulas=formulas,
            programs=problem.search.bound_programs,
            stop=lambda: _time_is_short(effort, 0.5 * QUICK_S),
        ),
    )
    if proven is None:
        return max(formulas, key=lambda bound: bound.value), ()
    bound, proof = proven
    if proof is None:
        return bound, ()
    laws = laws_of(cluster, workload, proof.classes)
    return bound, (strategy_certificate(proof, [law.name for law in laws.laws]),)


def _time_is_short(effort: Effort, seconds: float) -> bool:
    remaining_s = None if effort.timing is None else effort.timing.before_check().remaining_s()
    return remaining_s is not None and remaining_s < seconds


def _baselines(
    problem: CoOptimisation, search: JobSearch, effort: Effort
) -> tuple[tuple[Baseline, ...], tuple[str, ...]]:
    """Return the job on other fabrics, where that is asked for, and notes on them."""
    if search.fabrics is None:
        large = problem.cluster.servers > COMPARED_SERVERS and not effort.options.objective_only
        return (), (f"no other fabrics: they are left out above {COMPARED_SERVERS} servers",) if large else ()
    stop = effort.stop if effort.timing is None else effort.timing.before_check()
    return compare_fabrics(
        problem.cluster, problem.workload, [search.plan.strategy], search.fabrics, stop, effort.optional
    )


def _comparison(problem: CoOptimisation, search: JobSearch, baselines: tuple[Baseline, ...]) -> OtherFabrics | None:
    """Return what does not follow from the instance: seed, price book and strategies."""
    if search.fabrics is None and problem.book is None:
        return None
    book = problem.book or default_price_book()
    seed = 0 if search.fabrics is None else search.fabrics.seed
    return OtherFabrics(seed, book.sha256, tuple(ComparedStrategy(line.fabric, line.strategy) for line in baselines))


def fabric_problems(instance: CoOptimisation) -> list[Problem]:
    """What is wrong with the fabrics an instance names, with lines where it was read from a file."""
    wrong = choice_problems(instance.baselines.choices)
    return [
        replace(
            problem,
            file=instance.source or None,
            line=_line_of(instance.source, (*FABRICS_OF, *where)),
            path=path_text((*FABRICS_OF, *where)),
        )
        for where, problem in wrong
    ]


def _line_of(source: str, path: Path) -> int | None:
    if not source:
        return None
    try:
        return parse_document(source).line(path)
    except InputError:  # the file has changed since
        return None


def fabric_search(instance: CoOptimisation, proposals: int, seed: int, book: PriceBook | None = None) -> FabricSearch:
    """The comparison an instance asks for, every network checked; prices of the book, None: those shipped.

    Raises:
        InputError: an unknown fabric, or a setting it does not have.
    """
    problems = fabric_problems(instance)
    if problems:
        raise InputError(problems)
    chosen = [(entry, options_of(entry, instance.baselines, seed, book)) for entry in instance.baselines.choices]

    def inspect(choice: FabricChoice, options: FabricOptions, network: Network) -> None:
        require_lawful(instance.cluster, choice, options, network)

    return FabricSearch(proposals, seed, tuple(chosen), inspect)


def require_lawful(cluster: Cluster, choice: FabricChoice, options: FabricOptions, network: Network) -> None:
    """Hold the network of a fabric against the independent checker."""
    fabric = FABRICS[choice.fabric]
    direct = fabric.kind == "direct"
    violations = check_network(
        network,
        servers=cluster.servers,
        groups=strided_groups(cluster.servers),
        server_bytes_per_ms=bytes_per_ms(fabric.server_gbps(cluster, options)),
        interface_bytes_per_ms=cluster.link_bytes_per_ms if direct else None,
        symmetric=not direct or cluster.links is LinkDirection.BIDIRECTIONAL,
    )
    if violations:
        raise CheckError("\n".join(f"{choice.name}: {violation}" for violation in violations))


def program_of(laws: StrategyLaws, *, slices: bool = True) -> StrategyChoice:
    """The laws, or those that do not speak of slices, as a program; tables of zeros and idle events are left out."""
    numbers: dict[tuple[str, int], int] = {}
    quantities: list[Quantity] = []
    event_laws = []
    listed = [law for law in laws.laws if slices or not law.name.startswith(OF_SLICES)]
    ends = {0, len(laws.events) - 1, *(law.tail for law in listed), *(law.head for law in listed)}
    event = {old: new for new, old in enumerate(sorted(ends))}
    for law in listed:
        terms: dict[int, float] = {}
        for tables, needs in ((laws.operators, law.operators), (laws.between, law.pairs)):
            for name, indices in needs:
                for index in indices:
                    values = tables[name][index]
                    if not values.any():
                        continue
                    if (name, index) not in numbers:
                        numbers[name, index] = len(quantities)
                        quantities.append((index, values))
                    q = numbers[name, index]
                    terms[q] = terms.get(q, 0.0) + 1.0
        tail, head = event[law.tail], event[law.head]
        event_laws.append(EventLaw(law.name, tail, head, law.constant, tuple(terms.items())))
    return StrategyChoice(laws.counts, laws.pairs, tuple(quantities), tuple(event_laws), len(event), laws.memory)


def prove_bound(
    cluster: Cluster,
    workload: Workload,
    *,
    quick: bool = False,
    formulas: Sequence[Bound] | None = None,
    programs: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Bound, StrategyCertificate | None]:
    """The best lower bound on the iteration time of any plan, ms, and its proof where it needs one.

    The formulas need none; the strategy program is tried where it is small enough, with even and odd servers apart
    where that is.

    Args:
        quick: try it only where it takes well under a second.
        formulas: bounds of `topoopt.verify.job.bounds`; None: they are worked out.
        programs: linear programs that the proof may take; None: by its size.
        stop: whether time is up; what is proven by then counts.
    """
    bounds = instance_bounds(cluster, workload) if formulas is None else formulas
    formula = max(bounds, key=lambda bound: bound.value)
    choices = choices_of(cluster, workload)
    if cluster.servers < 2 or any(not choice.splits for choice in choices):
        return formula, None
    apart = not quick and cluster.servers % 2 == 0 and cluster.servers <= MAX_PARITY_SERVERS
    for classes in (2, 1) if apart else (1,):
        certificate = _certificate(cluster, workload, choices, classes, quick, programs, stop)
        if certificate is not None:
            proven = strategy_bound(cluster, workload, certificate)
            return (proven, certificate) if proven.value > formula.value else (formula, None)
    return formula, None


def _certificate(
    cluster: Cluster,
    workload: Workload,
    choices: tuple[Choices, ...],
    classes: int,
    quick: bool,
    programs: int | None,
    stop: Callable[[], bool],
) -> StrategyCertificate | None:
    """The proof with so many classes of servers; None: too large, or the solver fails."""
    most = QUICK_COEFFICIENTS if quick else MOST_COEFFICIENTS
    states = [len(state.split) for state in states_of(cluster, workload, choices, classes)]
    edges = {(edge.producer, v) for v, operator in enumerate(workload.operators) for edge in operator.inputs}
    if 2 * sum(states[u] * states[v] for u, v in edges) > most:
        return None  # each pair of states has two coefficients at least: too large before it is built
    laws = laws_of(cluster, workload, classes)
    fixed = None
    if classes > 1 and mirrored(laws):
        fixed = int(np.argmax([reduced.max() for reduced in laws.operators["allreduce"]]))
    fewer = program_of(laws, slices=False) if any(law.name.startswith(OF_SLICES) for law in laws.laws) else None
    root = at_root(laws, fixed)
    tree = prove(program_of(laws), most, fewer=fewer, allowed=root, programs=programs, stop=stop)
    return None if tree is None else StrategyCertificate(tree, classes, fixed)


def given_plan(
    instance: CoOptimisation,
    effort: Effort,
    solution: JobResult | None,
    *,
    topology: Topology | None = None,
    strategy: Strategy | None = None,
) -> tuple[CoOptimisation, JobSearch]:
    """The instance, and the plan of what is given; the rest is as in `solution`, or data parallel.

    Raises:
        InputError: no topology, one of other servers or links, too many links at a server, not connected; a strategy
            of other operators or placements.
    """
    if topology is None:
        if solution is None:
            raise InputError(
                [Problem("no topology", path="topology", allowed="a topology, or a solution that has one")]
            )
        topology = solution.plan.topology
    if strategy is None:
        cluster, workload = instance.cluster, instance.workload
        strategy = data_parallel(cluster.servers, workload) if solution is None else solution.plan.strategy
    problems = _topology_problems(instance, topology) + _strategy_problems(instance, strategy)
    if problems:
        raise InputError(problems)
    sharing = instance.sharings[0] if solution is None else solution.plan.link_sharing
    instance = instance.shared_as(sharing)
    cluster, search = instance.cluster, effort.search
    unscheduled = allreduce_problems(JobSearchSettings(allreduce=instance.search.allreduce), cluster)
    if unscheduled:
        raise InputError(unscheduled)
    result = plan_on(
        cluster,
        instance.workload,
        _patched(instance, topology),
        strategy,
        programs=tuple(name for name, most in AUTO_PROGRAMS.items() if cluster.servers <= most),
        allreduce=instance.search.allreduce,
        seed=search.seed,
        stop=effort.stop,
    )
    return instance, _search_of(result, sharing, effort)


def _patched(instance: CoOptimisation, topology: Topology) -> Topology:
    cluster = instance.cluster
    units = np.repeat(topology.arcs, topology.multiplicity, axis=0)
    return switched(
        Topology.of_arcs(
            cluster.servers, units, degree=cluster.degree, links=cluster.links, origin=topology.origin or "given"
        )
    )


def _topology_problems(instance: CoOptimisation, topology: Topology) -> list[Problem]:
    cluster, counts = instance.cluster, topology.adjacency()
    if topology.servers != cluster.servers:
        text, value = "another number of servers", str(topology.servers)
        return [Problem(text, path="topology.servers", value=value, allowed=str(cluster.servers))]
    most = int(max(counts.sum(axis=0).max(), counts.sum(axis=1).max()))
    problems = []
    if most > cluster.degree:
        text, allowed = "more links at a server than its interfaces", f"at most {cluster.degree}"
        problems.append(Problem(text, path="topology", value=str(most), allowed=allowed))
    if cluster.links is LinkDirection.BIDIRECTIONAL and not np.array_equal(counts, counts.T):
        text, allowed = "links that lead one way only", "as many links back as forth: the cluster has fibre pairs"
        problems.append(Problem(text, path="topology", allowed=allowed))
    if not strongly_connected(topology.servers, topology.arcs):
        problems.append(Problem("not every server can reach every other", path="topology"))
    return problems


def _strategy_problems(instance: CoOptimisation, strategy: Strategy) -> list[Problem]:
    operators, n = instance.workload.operators, instance.cluster.servers
    if len(strategy.placements) != len(operators):
        text, value = "another number of operators", str(len(strategy.placements))
        return [Problem(text, path="strategy", value=value, allowed=str(len(operators)))]
    problems = []
    for index, (operator, placement) in enumerate(zip(operators, strategy.placements, strict=True)):
        splits, pinned = len(operator.splits), operator.pinned_offset
        legal = 0 <= placement.split < splits
        free = n // operator.splits[placement.split].parts if legal else 0
        offsets = range(free) if pinned is None else (pinned,)
        for what, chosen, good, allowed in (
            ("split", placement.split, legal, f"0 to {splits - 1}"),
            ("offset", placement.offset, not legal or placement.offset in offsets, _span(offsets)),
        ):
            if not good:
                text, path = f"no such {what} of {operator.name}", f"strategy.placements[{index}].{what}"
                problems.append(Problem(text, path=path, value=str(chosen), allowed=allowed))
    return problems


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}" if numbers else ""


def _excerpt(result: JobResult) -> tuple[JobResult, int]:
    """Return a result with a part of the routes, and how many times as long all take to write."""
    plan, routes, n = result.plan, result.plan.routes, result.plan.topology.servers
    some = np.zeros((n, n), dtype=np.bool_)
    some[routes.source[::PARTS], routes.target[::PARTS]] = True
    return replace(result, plan=replace(plan, routes=routes_of_pairs(routes, some))), PARTS


def from_format_2(problem: CoOptimisation, document: Mapping[str, Any]) -> tuple[JobPlan, tuple[Certificate, ...]]:
    """Return the plan and the certificates of a solution file of format 2."""
    written, prices = document["plan"], document.get("prices") or {}
    strategies = tuple(ComparedStrategy(row["fabric"], _strategy_2(row["strategy"])) for row in document["baselines"])
    topology = written["topology"]
    settings = SwitchRows(LinkDirection(topology["links"]), topology["origin"], tuple(map(tuple, topology["switches"])))
    plan = JobPlan(
        strategy=_strategy_2(written["strategy"]),
        topology=settings.topology(),
        routes=_routes_2(written["routes"]),
        rings=tuple(
            GroupRings(
                tuple(group["members"]),
                tuple(
                    Ring(tuple(ring["order"]), float(ring["share"]), tuple(map(tuple, ring["paths"])))
                    for ring in group["rings"]
                ),
            )
            for group in written["rings"]
        ),
        schedules=tuple(map(_schedule_2, written.get("schedules", ()))),
        link_sharing=LinkSharing(document["cluster"]["link_sharing"]),
        comparison=OtherFabrics(document["seed"], prices.get("book_sha256", ""), strategies) if strategies else None,
    )
    certificates = []
    if document.get("certificate") is not None:
        proof = _proof_2(document["certificate"])
        shared = problem.shared_as(plan.link_sharing)
        laws = laws_of(shared.cluster, shared.workload, proof.classes)
        certificates.append(strategy_certificate(proof, [law.name for law in laws.laws]))
    joint = document.get("joint")
    if joint is not None:
        tree = LinkTree(np.array(joint["tree"]["order"]), np.array(joint["tree"]["multipliers"], dtype=np.int64))
        certificates.append(joint_certificate(float(joint["bound_ms"]), tree))
    return plan, tuple(certificates)


def _strategy_2(rows: Sequence[Sequence[int]]) -> Strategy:
    return Strategy(tuple(Placement(split, offset) for split, offset in rows))


def _routes_2(routes: Mapping[str, Any]) -> PathTable:
    pairs = routes["pairs"]
    paths = [path for _, _, of_pair in pairs for path in of_pair]

    def offsets(lengths: Sequence[int]) -> Ints:
        return np.cumsum([0, *lengths]).astype(np.int64)

    return PathTable(
        nodes_total=routes["nodes_total"],
        source=np.array([source for source, _, _ in pairs], dtype=np.int32),
        target=np.array([target for _, target, _ in pairs], dtype=np.int32),
        pair_ptr=offsets([len(of_pair) for _, _, of_pair in pairs]),
        share=np.array([share for share, _ in paths], dtype=np.float64),
        path_ptr=offsets([len(nodes) for _, nodes in paths]),
        node=np.array([node for _, nodes in paths for node in nodes], dtype=np.int32),
    )


def _schedule_2(row: Mapping[str, Any]) -> GroupSchedule:
    blocks, routes, sends = (tuple(map(tuple, row["schedule"][name])) for name in ("blocks", "routes", "sends"))
    head = (tuple(row["members"]), row["from_bytes"], row["below_bytes"], row["method"], row["pieces"])
    return ScheduleRows(*head, blocks, routes, sends).schedule()


def _proof_2(document: Mapping[str, Any]) -> StrategyCertificate:
    nodes: list[StrategyCut | StrategyCase] = []
    for node in document["nodes"]:
        if "operator" in node:
            nodes.append(StrategyCut(node["operator"], tuple(node["states"]), node["inside"], node["outside"]))
            continue
        prices = tuple((tuple(first), tuple(second)) for first, second in node["prices"])
        nodes.append(StrategyCase(tuple(node["laws"].items()), node["memory"], prices))
    return StrategyCertificate(tuple(nodes), document["classes"], document["fixed"])


JOB_METHODS = table(
    Method("auto", "alternating; on small clusters it then asks the exact programs", partial(searched, "auto")),
    *(Method(name, line.summary, partial(searched, name)) for name, line in METHODS.items()),
)

SOLVER = Solver(
    methods=lambda _: JOB_METHODS,
    assemble=assemble,
    tables=lambda _: (("", JOB_METHODS),),
    search_share=SEARCH_SHARE,
    excerpt=_excerpt,
)
