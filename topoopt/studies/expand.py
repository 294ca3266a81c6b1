"""A study file becomes its runs: what varies is multiplied out, every run is named by a hash, and errors are found
before.
"""

from __future__ import annotations

import copy
import glob
import hashlib
import importlib
import importlib.util
import itertools
import json
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from topoopt.core.arrays import GIB, MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.process import versions
from topoopt.files import codec
from topoopt.files.documents import Document, canonical_json, canonical_sha256, parse_document
from topoopt.files.issues import Issue, parse_path, path_text, value_text
from topoopt.files.issues import Path as DataPath
from topoopt.files.reader_fields import Findings, fitting
from topoopt.files.untrusted import file_sha256
from topoopt.kinds import kind_of
from topoopt.kinds.files import build_instance, read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import search_problems
from topoopt.studies.schema import (
    COMMANDS,
    MAX_LISTED,
    ON_INSTANCES,
    Group,
    Limits,
    Progression,
    Run,
    SeedCount,
    Study,
    StudyFile,
)

MAX_RUNS = 100_000
WALL_S = 3600.0
"""Default wall-time limit of a run without a time limit of its own."""

GRACE_S = 60.0
"""What a run may take beyond twice the time limit of its search before it is killed."""

MEMORY_MIB = 4096

NAMES = ("label", "name", "fabric", "kind")
"""Fields that name an item with settings."""

MAX_OPTION_FILE_BYTES = 64 * MIB
MAX_NAMED_FILE_BYTES = GIB
"""Of a file that an instance names."""

FILE_OPTIONS = ("prices",)
"""Options that name a file."""

WRITTEN_OPTIONS = ("output",)
"""Options that name a file or a folder to write."""

RUN_FILES = ("output.json", "log.txt", "instance.json")
"""Files of a run that are not its command's to write."""

REFERENCES = ("file", "profile", "trace", "plan")
"""Keys of an instance whose values may name another file."""

PACKAGES = ("topoopt", "formulations", "solvers")

Factors = tuple[tuple[str, Any], ...]
Base = tuple[str, dict[str, Any] | None, str]
"""An instance before variation: its name, its document (None: it cannot be parsed) and its file."""


def progression_values(rule: Progression) -> list[float | int]:
    """Numbers of a rule, the first included, the last when it is met; whole numbers stay whole.

    Raises:
        ValueError: neither or both of step and factor, nothing in it, or too many.
    """
    if (rule.step is None) == (rule.factor is None):
        raise ValueError("either step or factor")
    if rule.factor is not None and rule.start <= 0:
        raise ValueError("a sequence by factor starts above 0")
    values: list[float | int] = []
    for k in itertools.count():
        try:
            value = rule.start + k * rule.step if rule.step is not None else rule.start * (rule.factor or 1) ** k
            beyond = not math.isfinite(value) or value > rule.to * (1 + 1e-12)
        except OverflowError:  # beyond what a float holds, so beyond `to`
            break
        if beyond:
            break
        if len(values) == MAX_LISTED:
            raise ValueError(f"more than {MAX_LISTED} values")
        values.append(value)
    if not values:
        raise ValueError("from is above to")
    return values


def cell_of(value: Any) -> Any:
    """The cell of a value put into an instance: of a list its items, of settings their name."""
    if not isinstance(value, list):
        return value
    named = [
        next((item[key] for key in NAMES if item.get(key)), item) if isinstance(item, dict) else item for item in value
    ]
    return str(named)


def combinations(group: Group, around: DataPath, issues: list[Issue]) -> list[Factors]:
    """Every case of a group: each of `together` with every combination of `vary`."""
    axes: list[list[tuple[str, Any]]] = []
    for path, values in group.vary.items():
        if not parse_path(path):
            issues.append(Issue((*around, "vary", path), "not a path", value_text(path), "such as cluster.degree"))
        try:
            listed = progression_values(values) if isinstance(values, Progression) else values
        except ValueError as error:
            issues.append(Issue((*around, "vary", path), str(error), allowed="{from: 8, to: 64, factor: 2}"))
            continue
        axes.append([(path, value) for value in listed])
    cases: list[Factors] = [tuple(case.items()) for case in group.together] or [()]
    for index, case in enumerate(group.together):
        for path in set(case) & set(group.vary):
            where = (*around, "together", index, path)
            issues.append(Issue(where, "varied twice", path, "either in vary or in together"))
    number = len(cases) * math.prod(map(len, axes))
    if number > MAX_LISTED:
        issues.append(Issue(around, "too many cases", str(number), f"at most {MAX_LISTED} a group"))
        return []
    return [(*case, *combined) for case in cases for combined in itertools.product(*axes)]


def varied(document: Mapping[str, Any], factors: Factors) -> dict[str, Any]:
    """A copy of an instance with fields set; mappings that are missing on the path are made.

    Raises:
        KeyError: a path leads through something that is no mapping or list; the message says where.
    """
    result: dict[str, Any] = copy.deepcopy(dict(document))
    for path, value in factors:
        parts = parse_path(path)
        node: Any = result
        for depth, part in enumerate(parts):
            last = depth == len(parts) - 1
            fits = isinstance(node, dict) and isinstance(part, str)
            if not fits and not (isinstance(node, list) and isinstance(part, int) and part < len(node)):
                raise KeyError(path_text(parts[: depth + 1]) or path)
            if last:
                node[part] = copy.deepcopy(value)
            else:
                node = node.setdefault(part, {}) if fits else node[part]
    return result


def option_issues(options: Mapping[str, Any]) -> list[Issue]:
    """Options that are no option, or that would write anywhere but into the folder of the run."""
    issues = []
    for key, value in options.items():
        if not re.fullmatch(r"[a-z][a-z0-9-]*", key, re.ASCII):
            issues.append(Issue(("instances",), "not an option", value_text(key), "a name without dashes before it"))
        elif key in WRITTEN_OPTIONS and value is not None:
            plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,100}", value, re.ASCII)
            if not plain or value in RUN_FILES:
                text = f"option {key} would write outside the folder of the run"
                issues.append(Issue(("instances",), text, value_text(value), "a plain file name, such as bill.csv"))
        elif isinstance(value, str) and value.startswith("-"):
            text = f"the value of option {key} begins like an option"
            issues.append(Issue(("instances",), text, value_text(value), "a value that begins with no dash"))
    return issues


FAMILY = "family"
"""The option that is a word after the command."""


def words_of(options: Mapping[str, Any], settings: Collection[str] = ()) -> tuple[str, ...]:
    """Words after a command that give it these options, some of which are settings; none of those that are null, or
    options and false."""
    words: list[str] = []
    for key, value in options.items():
        if key in settings and value is not None:
            words += ["--set", f"{key.replace('-', '_')}={value}"]
        elif value is not None and value is not False:
            words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return tuple(words)


def command_line_of(words: Sequence[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """The line of a command in `COMMANDS`; a family of topologies may stand after it."""
    family = len(words) == 3 and re.fullmatch(r"[a-z][a-z0-9-]*", words[2], re.ASCII)
    return COMMANDS.get(" ".join(words[:2] if family else words))


def with_files(options: Mapping[str, Any], folder: Path, issues: list[Issue]) -> tuple[dict[str, Any], dict[str, str]]:
    """Options with files relative to `folder` as absolute paths, and the SHA-256 of each file by the name given.

    A file that cannot be read is added to `issues`.
    """
    resolved, hashes = dict(options), {}
    for key in FILE_OPTIONS:
        value = options.get(key)
        if not isinstance(value, str):
            continue
        path = Path(os.path.abspath(folder / value))
        try:
            hashes[value] = file_sha256(path, MAX_OPTION_FILE_BYTES)
        except InputError:
            text = f"no such file for option {key}"
            issues.append(Issue(("instances",), text, value_text(value), f"a file, relative to {folder}"))
        resolved[key] = str(path)
    return resolved, hashes


def code_versions() -> tuple[tuple[str, str], ...]:
    """Versions of Python, of the libraries that matter, and a hash over our own sources."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        folder = Path(next(iter(spec.submodule_search_locations or ()))) if spec else None
        if folder is None:
            continue
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(folder)).encode())
            digest.update(b"\0")
            digest.update(file.read_bytes())
    return (*versions(), ("code", digest.hexdigest()[:16]))


def with_references(document: Any, folder: Path, hashes: dict[str, str], cache: dict[str, str]) -> Any:
    """The document with names of existing files made absolute, for an instance that is moved elsewhere.

    `hashes` gets the hash of each file under its name; `cache` has those of files that were read before.
    """
    if isinstance(document, Mapping):
        return {
            key: _referenced(value, folder, hashes, cache)
            if key in REFERENCES and isinstance(value, str)
            else with_references(value, folder, hashes, cache)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [with_references(value, folder, hashes, cache) for value in document]
    return document


def _referenced(name: str, folder: Path, hashes: dict[str, str], cache: dict[str, str]) -> str:
    path = folder / name
    try:
        full = str(path.resolve())
        if full not in cache:
            if not path.is_file():
                return name
            cache[full] = file_sha256(path, MAX_NAMED_FILE_BYTES)
    except (OSError, ValueError, InputError):
        return name
    hashes[name] = cache[full]
    return full


def read_study(path: str | os.PathLike[str], *, small: bool = False) -> Study:
    """Read and expand a study file; `small`: its small form.

    An instance that cannot be parsed is a run like any other, which will be refused; a file that is not there is a
    problem of the study.

    Raises:
        InputError: everything wrong with the study file.
    """
    study, problems = expanded(path, small=small)
    if problems or study is None:
        raise InputError(problems)
    return study


def expanded(path: str | os.PathLike[str], *, small: bool = False) -> tuple[Study | None, list[Problem]]:
    """What can be expanded of a study file, or of its small form, None if nothing can, and all that is wrong with it.

    Raises:
        InputError: a file that cannot be read or parsed.
    """
    document = parse_document(path)
    findings = Findings()
    whole = findings.shape(StudyFile, document)
    file, kept = (whole, range(len(whole.instances))) if whole else sound_sections(document, findings.issues)
    if document.issues or file is None:
        # numbers that are none may stand in an instance, where the shape of a study takes anything
        return None, document.problems(findings.issues)
    if small:
        if file.small is None:
            return None, document.problems([Issue(("small",), "this study has no small form")])
        file = replace(file, instances=file.small.instances, limits=file.small.limits)
        kept = range(len(file.instances))
    issues: list[Issue] = []
    recorded: dict[str, str | None] = dict(code_versions())
    runs = runs_of(file, Path(document.file).parent, recorded, issues)
    sha256 = canonical_sha256(codec.plain(file))
    study = Study(name=file.name, file=document.file, sha256=sha256, versions=recorded, study=file, runs=tuple(runs))
    findings.add(
        replace(issue, path=("instances", kept[issue.path[1]], *issue.path[2:]))
        if len(issue.path) > 1 and issue.path[0] == "instances" and isinstance(issue.path[1], int)
        else issue
        for issue in issues
    )
    return study, document.problems(findings.issues)


def sound_sections(document: Document, issues: list[Issue]) -> tuple[StudyFile | None, Sequence[int]]:
    """A study file without the sections that have errors, and its groups without any, with their positions.

    None if that leaves none.
    """
    if not isinstance(document.data, dict):
        return None, ()
    bad = {issue.path[0] for issue in issues if issue.path}
    bad_groups = {issue.path[1] for issue in issues if len(issue.path) > 1 and issue.path[0] == "instances"}
    fields = StudyFile.__dataclass_fields__
    sound = {key: value for key, value in document.data.items() if key not in bad and key in fields}
    groups = document.data.get("instances")
    kept = [index for index in range(len(groups)) if index not in bad_groups] if isinstance(groups, list) else []
    if isinstance(groups, list):
        sound["instances"] = [groups[index] for index in kept]
    return fitting(StudyFile, {"schema_version": 1, "kind": "study", "name": "study", **sound}), kept


def runs_of(file: StudyFile, folder: Path, recorded: dict[str, str | None], issues: list[Issue]) -> list[Run]:
    """All runs of a study file, in order; nothing of a group with errors, which are added to `issues`."""
    runs: list[Run] = []
    cache: dict[str, str] = {}
    for index, group in enumerate(file.instances):
        around = ("instances", index)
        given = [key for key in ("file", "instance", "command") if getattr(group, key) is not None]
        if group.command in ON_INSTANCES:
            given.remove("command")
        if len(given) != 1:
            text = "one of file, instance and command"
            issues.append(Issue(around, "what to run is not clear", ", ".join(given) or None, text))
            continue
        if group.options and group.command is None:
            issues.append(Issue((*around, "options"), "no command they belong to", allowed="only beside command"))
        cases = combinations(group, around, issues)
        alone = group.command is not None and group.command not in ON_INSTANCES
        for base in [None] if alone else _bases(group, folder, around, issues):
            for case in cases:
                runs += _runs_of_case(file, group, base, case, folder, recorded, cache, issues)
        if len(runs) > MAX_RUNS:
            issues.append(Issue(("instances",), "too many runs", str(len(runs)), f"at most {MAX_RUNS}"))
            return []
    return runs


def _bases(group: Group, folder: Path, around: DataPath, issues: list[Issue]) -> list[Base]:
    """Instances of a group before variation."""
    if group.instance is not None:
        return [(group.label or str(group.instance.get("name", "instance")), dict(group.instance), "")]
    pattern = group.file or ""
    files = [name for name in sorted(glob.glob(str(folder / pattern), recursive=True)) if Path(name).is_file()]
    if not files:
        message = "no such file" if glob.escape(pattern) == pattern else "no file fits this pattern"
        issues.append(Issue((*around, "file"), message, value_text(pattern), f"a file, relative to {folder}"))
    bases: list[Base] = []
    for name in files:
        try:
            document = parse_document(name)
            data = document.data if isinstance(document.data, dict) and not document.issues else None
        except InputError:
            data = None
            if group.vary or group.together:
                issues.append(Issue((*around, "file"), "cannot be parsed, so nothing in it can vary", name))
        bases.append((group.label or Path(name).stem, data, name))
    return bases


def _runs_of_case(
    file: StudyFile,
    group: Group,
    base: Base | None,
    case: Factors,
    folder: Path,
    recorded: dict[str, str | None],
    cache: dict[str, str],
    issues: list[Issue],
) -> list[Run]:
    """A command on an instance, which varies, or on none: then its options do; `solve` with methods and seeds."""
    name, document, source = base or (group.label or (group.command or "").replace(" ", "-"), None, "")
    text: str | None = None
    content: dict[str, Any] = {}
    if document is not None:
        try:
            instance = varied(document, case)
        except KeyError as error:
            issues.append(Issue(("instances",), f"nothing in {name} that could vary here", error.args[0]))
            return []
        hashes: dict[str, str] = {}
        text = canonical_json(with_references(instance, Path(source).parent if source else folder, hashes, cache))
        content = {"instance": instance, "files": hashes}
    elif base is not None:
        try:
            content = {"raw": file_sha256(source, MAX_NAMED_FILE_BYTES)}
        except InputError:  # it cannot be read, or is larger than any instance
            content = {"raw": None}
    limits = limits_of(group.limits, file.limits)
    factors = case
    command = tuple((group.command or "solve").split())
    rows: list[tuple[tuple[str, ...], str | None, int | None, int]]
    if group.command is None:
        seeds = group.seeds if group.seeds is not None else file.seeds
        if isinstance(seeds, SeedCount):
            seeds = list(range(seeds.first, seeds.first + seeds.count))
        ends = {"time-limit": limits.time_limit_s, "budget": limits.budget}
        rows = [
            (words_of({"method": method, "seed": str(seed), **ends}), method, seed, repetition)
            for method in dict.fromkeys(group.methods or file.methods)
            for seed in dict.fromkeys(seeds)
            for repetition in range(file.repetitions)
        ]
    else:
        given = {**group.options, **(dict(case) if base is None else {})}
        issues += option_issues(given)
        options, files = with_files(given, folder, issues)
        content = {**content, **({"options": files} if files else {})}
        if FAMILY in options:
            command = (*command, str(options.pop(FAMILY)))
        line = command_line_of(command)
        rows = [(words_of(options, () if line is None else line[2]), None, None, 0)]
        factors = tuple({**given, **dict(case)}.items())
    digest = canonical_sha256(content) if content else ""
    cells = {path: cell_of(value) for path, value in factors}
    runs = []
    for arguments, method, seed, repetition in rows:
        parts = {
            "content": digest,
            "command": [*command],
            "arguments": [*arguments],
            "repetition": repetition,
            "limits": [limits.wall_s, limits.memory_mib],
            "versions": recorded,
        }
        run = Run(
            identity=canonical_sha256(parts),
            instance=name,
            source=source,
            command=command,
            arguments=arguments,
            method=method,
            seed=seed,
            repetition=repetition,
            factors=cells,
            limits=limits,
            document=text,
        )
        runs.append(run)
    return runs


def limits_of(local: Limits, general: Limits) -> Limits:
    """Limits of a run: its own, else those of the study, else the defaults."""
    time_limit_s = local.time_limit_s if local.time_limit_s is not None else general.time_limit_s
    default_s = WALL_S if time_limit_s is None else 2 * time_limit_s + GRACE_S
    return Limits(
        time_limit_s=time_limit_s,
        budget=local.budget if local.budget is not None else general.budget,
        wall_s=local.wall_s or general.wall_s or default_s,
        memory_mib=local.memory_mib or general.memory_mib or MEMORY_MIB,
    )


def outlook(study: Study) -> dict[str, Any]:
    """What `study validate` says of a study: read every instance, and look up every method.

    Its keys: `runs` that differ, `repeated` rows that share a run with an earlier one, `longest_s` until the last run
    is killed if each takes all it may, with one job, and `problems`: such runs will be refused, the others not.
    """
    unique = {run.identity: run for run in study.runs}
    problems: dict[str, Problem] = {}
    seen: set[tuple[str | None, str, str | None]] = set()
    for run in unique.values():
        listed: list[Problem] = []
        key = (run.document, run.source, run.method)
        if (run.document is not None or run.source) and key not in seen:
            seen.add(key)
            listed += _instance_problems(run)
        if run.command != ("solve",):
            listed += _option_problems(run)
        for problem in listed:
            problems.setdefault(str(problem), problem)
    return {
        "runs": len(unique),
        "repeated": len(study.runs) - len(unique),
        "longest_s": sum(run.limits.wall_s or WALL_S for run in unique.values()),
        "problems": tuple(problems.values()),
    }


def _instance_problems(run: Run) -> list[Problem]:
    """What is wrong with the instance of a run, and with its method; each with the file and what was varied."""
    name = run.source or run.instance
    try:
        if run.document is None:
            instance = read_instance(run.source)
        else:
            instance = build_instance(Document(name, json.loads(run.document), lambda _: {}))
        options = SolveOptions(run.seed or 0, run.limits.time_limit_s, run.limits.budget, run.method or "auto")
        problems = search_problems(kind_of(instance), instance, options)
    except InputError as error:
        problems = list(error.problems)
    factors = ", ".join(f"{path} = {value}" for path, value in run.factors.items())
    suffix = f" (with {factors})" if factors else ""
    return [
        replace(problem, file=problem.file or str(Path(name)), message=problem.message + suffix) for problem in problems
    ]


def _option_problems(run: Run) -> list[Problem]:
    """What the command of a run says of its options."""
    line = command_line_of(run.command)
    if line is None:
        return [Problem("no such command", path=f"instances: {run.instance}", value=" ".join(run.command))]
    module, name, _ = line
    named = ["instance.json"] if run.document is not None or run.source else []
    instance = [*run.command[1:]] or named
    alone = typer.Typer(add_completion=False)
    alone.command()(getattr(importlib.import_module(module), name))
    try:
        typer.main.get_command(alone).make_context(run.command[-1], [*instance, *run.arguments, "--json"])
    except Exception as error:  # typer has its errors from click, or from a copy of its own
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        return [Problem(format_message(), path=f"instances: {run.instance}", value=" ".join(run.arguments))]
    return []
