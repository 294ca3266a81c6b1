"""A study file becomes its runs: factors are multiplied out, every run is named by a hash, and faults are found
before.
"""

from __future__ import annotations

import glob
import hashlib
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from topoopt.core.arrays import GIB, MIB
from topoopt.core.comparison import ComparedBy, Figure, Published, RunLimits, Study, StudyRun, Table
from topoopt.core.errors import InputError, Problem
from topoopt.core.process import versions
from topoopt.files.documents import Document, canonical_json, canonical_sha256, parse_document
from topoopt.files.findings import Findings, fitting
from topoopt.files.issues import Issue, value_text
from topoopt.files.issues import Path as DataPath
from topoopt.files.untrusted import file_sha256
from topoopt.kinds import kind_of
from topoopt.kinds.files import build_instance, read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import search_problems
from topoopt.studies.schema import (
    COMMANDS,
    ON_INSTANCES,
    Factors,
    GroupFile,
    LimitsFile,
    StudyFile,
    cell_of,
    combinations,
    seeds_of,
    varied,
)


def at_their_place(issue: Issue, kept: Sequence[int]) -> Issue:
    """A fault with the position that its group has in the file."""
    if len(issue.path) > 1 and issue.path[0] == "instances" and isinstance(issue.path[1], int):
        return replace(issue, path=("instances", kept[issue.path[1]], *issue.path[2:]))
    return issue


def sound_part(document: Document, issues: list[Issue]) -> tuple[StudyFile | None, Sequence[int]]:
    """A study file without the sections that have faults, and its groups without any, with their positions; None if
    that leaves none."""
    if not isinstance(document.data, dict):
        return None, ()
    bad = {issue.path[0] for issue in issues if issue.path}
    bad_groups = {issue.path[1] for issue in issues if len(issue.path) > 1 and issue.path[0] == "instances"}
    sound = {key: value for key, value in document.data.items() if key not in bad and key in StudyFile.model_fields}
    groups = document.data.get("instances")
    kept = [index for index in range(len(groups)) if index not in bad_groups] if isinstance(groups, list) else []
    if isinstance(groups, list):
        sound["instances"] = [groups[index] for index in kept]
    return fitting(StudyFile, {"schema_version": 1, "kind": "study", "name": "study", **sound}), kept


MAX_OPTION_FILE_BYTES = 64 * MIB

FILE_OPTIONS = ("prices",)
"""Options that name a file."""


WRITTEN_OPTIONS = ("output",)
"""Options that name a file or a folder to write."""

_KEPT = ("run.json", "output.json", "log.txt", "instance.json")
"""Files of a run that are not its command's to write."""


def option_issues(options: Mapping[str, Any]) -> list[Issue]:
    """Options that are no option, or that would write anywhere but into the folder of the run."""
    issues = []
    for key, value in options.items():
        if not re.fullmatch(r"[a-z][a-z0-9-]*", key, re.ASCII):
            issues.append(Issue(("instances",), "not an option", value_text(key), "a name without dashes before it"))
        elif key in WRITTEN_OPTIONS and value is not None:
            plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,100}", value, re.ASCII)
            if not plain or value in _KEPT:
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


def options_of(words: Sequence[str]) -> dict[str, Any]:
    """Options of the words after a command: `--key value`, or `--key` alone."""
    options: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        alone = not left or left[0].startswith("--")
        options[word.removeprefix("--") if word.startswith("--") else f"({word})"] = True if alone else left.pop(0)
    return options


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


PACKAGES = ("topoopt", "formulations", "solvers")
MAX_NAMED_FILE_BYTES = GIB
"""Of a file that an instance names."""

REFERENCES = ("file", "profile", "trace", "plan")
"""Keys of an instance whose values may name another file."""


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


class References:
    """Files that instances refer to: found relative to the instance, read once, known by content."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}

    def resolved(self, document: Any, folder: Path, hashes: dict[str, str]) -> Any:
        """The document with names of existing files made absolute, for an instance that is moved elsewhere.

        `hashes` gets the hash of each file under its name.
        """
        if isinstance(document, Mapping):
            return {
                key: self._file(value, folder, hashes)
                if key in REFERENCES and isinstance(value, str)
                else self.resolved(value, folder, hashes)
                for key, value in document.items()
            }
        if isinstance(document, list):
            return [self.resolved(value, folder, hashes) for value in document]
        return document

    def sha256(self, name: str) -> str | None:
        """Of the content of a file; None where it cannot be read, or is larger than any instance."""
        try:
            return file_sha256(name, MAX_NAMED_FILE_BYTES)
        except InputError:
            return None

    def _file(self, name: str, folder: Path, hashes: dict[str, str]) -> str:
        path = folder / name
        try:
            full = str(path.resolve())
            if full not in self._hashes:
                if not path.is_file():
                    return name
                self._hashes[full] = file_sha256(path, MAX_NAMED_FILE_BYTES)
        except (OSError, ValueError, InputError):
            return name
        hashes[name] = self._hashes[full]
        return full


def identity_of(parts: Mapping[str, Any]) -> str:
    """SHA-256 over everything that determines a run."""
    return canonical_sha256(parts)


MAX_RUNS = 100_000
WALL_S = 3600.0
"""Default wall-time limit of a run without a time limit of its own."""

GRACE_S = 60.0
"""What a run may take beyond twice the time limit of its search before it is killed."""

MEMORY_MIB = 4096


@dataclass(frozen=True)
class _Base:
    """An instance before variation: its name, its document (None: it cannot be parsed) and its file."""

    name: str
    document: dict[str, Any] | None
    source: str


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
    file, kept = (whole, range(len(whole.instances))) if whole else sound_part(document, findings.issues)
    if document.issues or file is None:
        # numbers that are none may stand in an instance, where the shape of a study takes anything
        return None, document.problems(findings.issues)
    issues: list[Issue] = []
    if small:
        if file.small is None:
            return None, document.problems([Issue(("small",), "this study has no small form")])
        file = file.model_copy(update={"instances": file.small.instances, "limits": file.small.limits})
        kept = range(len(file.instances))
    study = _study_of(file, document, issues)
    findings.add(at_their_place(issue, kept) for issue in issues)
    return study, document.problems(findings.issues)


def _study_of(file: StudyFile, document: Document, issues: list[Issue]) -> Study:
    """The study of a file in its shape; what is wrong with it is added to `issues`."""
    versions: dict[str, str | None] = dict(code_versions())
    runs = _Expansion(file, Path(document.file).parent, versions, issues).runs()
    return Study(
        name=file.name,
        title=file.title or file.name,
        notes=tuple(file.notes),
        comparison=ComparedBy(**file.compare.model_dump()),
        figures=tuple(
            Figure(
                **{
                    **figure.model_dump(),
                    "title": figure.title or "",
                    "columns": tuple(figure.columns),
                    "where": tuple(figure.where.items()),
                }
            )
            for figure in file.figures
        ),
        tables=tuple(
            Table(
                title=table.title,
                rows=tuple(table.rows),
                values=tuple(table.values),
                columns=table.columns,
                statistic=table.statistic,
                where=tuple(table.where.items()),
            )
            for table in file.tables
        ),
        published=tuple(
            Published(**{**published.model_dump(), "where": tuple(published.where.items())})
            for published in file.published
        ),
        names=file.names,
        file=document.file,
        sha256=canonical_sha256(file.model_dump(mode="json", by_alias=True)),
        versions=versions,
        runs=tuple(runs),
    )


def limits_of(own: LimitsFile, general: LimitsFile) -> RunLimits:
    """Limits of a run: its own, else those of the study, else the defaults."""
    time_limit_s = own.time_limit_s if own.time_limit_s is not None else general.time_limit_s
    wall_s = own.wall_s if own.wall_s is not None else general.wall_s
    if wall_s is None:
        wall_s = WALL_S if time_limit_s is None else 2 * time_limit_s + GRACE_S
    return RunLimits(
        time_limit_s=time_limit_s,
        budget=own.budget if own.budget is not None else general.budget,
        wall_s=wall_s,
        memory_mib=own.memory_mib or general.memory_mib or MEMORY_MIB,
    )


class _Expansion:
    """One pass over the groups of a study file."""

    def __init__(self, file: StudyFile, folder: Path, versions: dict[str, str | None], issues: list[Issue]) -> None:
        self.file, self.folder, self.versions, self.issues = file, folder, versions, issues
        self.references = References()

    def runs(self) -> list[StudyRun]:
        """All runs, in order; nothing of a group with faults."""
        runs: list[StudyRun] = []
        for index, group in enumerate(self.file.instances):
            runs += self._group(group, ("instances", index))
            if len(runs) > MAX_RUNS:
                self.issues.append(Issue(("instances",), "too many runs", str(len(runs)), f"at most {MAX_RUNS}"))
                return []
        return runs

    def _group(self, group: GroupFile, around: DataPath) -> list[StudyRun]:
        given = [key for key in ("file", "instance", "command") if getattr(group, key) is not None]
        if group.command in ON_INSTANCES:
            given.remove("command")
        if len(given) != 1:
            text = "one of file, instance and command"
            self.issues.append(Issue(around, "what to run is not clear", ", ".join(given) or None, text))
            return []
        if group.options and group.command is None:
            self.issues.append(Issue((*around, "options"), "no command they belong to", allowed="only beside command"))
        cases = combinations(group, around, self.issues)
        if group.command is not None and group.command not in ON_INSTANCES:
            return [run for case in cases for run in self._command_run(group, None, case)]
        runs_of = self._solves if group.command is None else self._command_run
        bases = self._bases(group, around)
        return [run for base in bases for case in cases for run in runs_of(group, base, case)]

    def _bases(self, group: GroupFile, around: DataPath) -> list[_Base]:
        if group.instance is not None:
            name = group.label or str(group.instance.get("name", "instance"))
            return [_Base(name, dict(group.instance), "")]
        pattern = group.file or ""
        matches = sorted(glob.glob(str(self.folder / pattern), recursive=True))
        files = [name for name in matches if Path(name).is_file()]
        if not files:
            message = "no such file" if glob.escape(pattern) == pattern else "no file fits this pattern"
            allowed = f"a file, relative to {self.folder}"
            self.issues.append(Issue((*around, "file"), message, value_text(pattern), allowed))
        return [self._base(name, group, around) for name in files]

    def _base(self, name: str, group: GroupFile, around: DataPath) -> _Base:
        try:
            document = parse_document(name)
        except InputError:
            if group.vary or group.together:
                self.issues.append(Issue((*around, "file"), "cannot be parsed, so nothing in it can vary", name))
            return _Base(group.label or Path(name).stem, None, name)
        data = document.data if isinstance(document.data, dict) and not document.issues else None
        return _Base(group.label or Path(name).stem, data, name)

    def _instance(self, base: _Base, case: Factors) -> tuple[str | None, dict[str, Any]] | None:
        """Canonical JSON of a varied instance, None where it cannot be parsed, and what determines it."""
        if base.document is None:
            return None, {"raw": self.references.sha256(base.source)}
        try:
            instance = varied(base.document, case)
        except KeyError as error:
            self.issues.append(Issue(("instances",), f"nothing in {base.name} that could vary here", error.args[0]))
            return None
        files: dict[str, str] = {}
        folder = Path(base.source).parent if base.source else self.folder
        text = canonical_json(self.references.resolved(instance, folder, files))
        return text, {"instance": instance, "files": files}

    def _solves(self, group: GroupFile, base: _Base, case: Factors) -> list[StudyRun]:
        read = self._instance(base, case)
        if read is None:
            return []
        text, digest = read[0], canonical_sha256(read[1])
        limits = limits_of(group.limits, self.file.limits)
        methods = group.methods or self.file.methods
        seeds = seeds_of(group.seeds if group.seeds is not None else self.file.seeds)
        return [
            self._run(base, case, text, digest, ("solve",), _options(method, seed, limits), method, seed, again, limits)
            for method in dict.fromkeys(methods)
            for seed in seeds
            for again in range(self.file.repetitions)
        ]

    def _command_run(self, group: GroupFile, base: _Base | None, case: Factors) -> list[StudyRun]:
        """A command on an instance, which varies, or on none: then its options do."""
        read = (None, {}) if base is None else self._instance(base, case)
        if read is None:
            return []
        given = {**group.options, **(dict(case) if base is None else {})}
        self.issues += option_issues(given)
        options, files = with_files(given, self.folder, self.issues)
        words = tuple((group.command or "").split())
        if FAMILY in options:
            words = (*words, str(options.pop(FAMILY)))
        line = command_line_of(words)
        content = {**read[1], **({"options": files} if files else {})}
        digest = canonical_sha256(content) if content else ""
        limits = limits_of(group.limits, self.file.limits)
        named = base or _Base(group.label or (group.command or "").replace(" ", "-"), None, "")
        factors = tuple({**given, **dict(case)}.items())
        return [
            self._run(
                named,
                factors,
                read[0],
                digest,
                words,
                words_of(options, () if line is None else line[2]),
                None,
                None,
                0,
                limits,
            )
        ]

    def _run(
        self,
        base: _Base,
        factors: Factors,
        text: str | None,
        digest: str,
        command: tuple[str, ...],
        arguments: tuple[str, ...],
        method: str | None,
        seed: int | None,
        repetition: int,
        limits: RunLimits,
    ) -> StudyRun:
        parts = {
            "content": digest,
            "command": [*command],
            "arguments": [*arguments],
            "repetition": repetition,
            "limits": [limits.wall_s, limits.memory_mib],
            "versions": self.versions,
        }
        return StudyRun(
            identity=identity_of(parts),
            instance=base.name,
            command=command,
            arguments=arguments,
            document=text,
            source=base.source,
            method=method,
            seed=seed,
            repetition=repetition,
            factors={path: cell_of(value) for path, value in factors},
            limits=limits,
        )


def _options(method: str, seed: int, limits: RunLimits) -> tuple[str, ...]:
    words = ["--method", method, "--seed", str(seed)]
    if limits.time_limit_s is not None:
        words += ["--time-limit", repr(limits.time_limit_s)]
    if limits.budget is not None:
        words += ["--budget", str(limits.budget)]
    return tuple(words)


@dataclass(frozen=True)
class Outlook:
    """A study before it is run.

    Attributes:
        runs: that differ.
        repeated: rows that share a run with an earlier one.
        longest_s: seconds until the last run is killed if every run takes all it may, with one job.
        problems: of instances and methods; such runs will be refused, the others not.
    """

    runs: int
    repeated: int
    longest_s: float
    problems: tuple[Problem, ...]


def outlook(study: Study, *, progress: Callable[[int], None] | None = None) -> Outlook:
    """Read every instance of a study, and look up every method."""
    unique = {run.identity: run for run in study.runs}
    problems: dict[str, Problem] = {}
    judged: set[tuple[str | None, str, str | None]] = set()
    for count, run in enumerate(unique.values()):
        key = (run.document, run.source, run.method)
        if (run.document is not None or run.source) and key not in judged:
            judged.add(key)
            for problem in _problems(run):
                problems.setdefault(str(problem), problem)
        if run.command != ("solve",):
            for problem in _option_problems(run):
                problems.setdefault(str(problem), problem)
        if progress is not None:
            progress(count + 1)
    longest_s = sum(run.limits.wall_s for run in unique.values())
    return Outlook(len(unique), len(study.runs) - len(unique), longest_s, tuple(problems.values()))


def _problems(run: StudyRun) -> list[Problem]:
    try:
        instance = _instance(run)
        options = SolveOptions(run.seed or 0, run.limits.time_limit_s, run.limits.budget, run.method or "auto")
        problems = search_problems(kind_of(instance), instance, options)
    except InputError as error:
        problems = list(error.problems)
    return [_placed(problem, run) for problem in problems]


def _option_problems(run: StudyRun) -> list[Problem]:
    """What the command of a run says of its options."""
    line = command_line_of(run.command)
    if line is None:
        return [Problem("no such command", path=f"instances: {run.instance}", value=" ".join(run.command))]
    module, name, _ = line
    instance = (
        [*run.command[1:]]
        if len(run.command) > 1
        else ["instance.json"]
        if run.document is not None or run.source
        else []
    )
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


def _instance(run: StudyRun) -> Any:
    if run.document is None:
        return read_instance(run.source)
    name = run.source or run.instance
    return build_instance(Document(name, json.loads(run.document), lambda _: {}))


def _placed(problem: Problem, run: StudyRun) -> Problem:
    """The problem with the file it is in, and what was varied."""
    varied = ", ".join(f"{path} = {value}" for path, value in run.factors.items())
    message = f"{problem.message} (with {varied})" if varied else problem.message
    return replace(problem, file=problem.file or str(Path(run.source or run.instance)), message=message)
