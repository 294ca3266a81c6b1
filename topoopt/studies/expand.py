"""A study file to its runs: patterns, variations, methods, seeds and repetitions multiplied out."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from topoopt.core.comparison import ComparedBy, Figure, Published, RunLimits, Study, StudyRun, Table
from topoopt.core.errors import InputError, Problem
from topoopt.files.documents import Document, canonical_json, canonical_sha256, parse_document
from topoopt.files.faults import Fault, value_text
from topoopt.files.faults import Path as DataPath
from topoopt.files.findings import Findings
from topoopt.studies.file_options import faults_of_options, with_found_files, words_of
from topoopt.studies.identity import References, code_versions, identity_of
from topoopt.studies.schema import ON_INSTANCES, GroupFile, LimitsFile, StudyFile
from topoopt.studies.sound import at_their_place, sound_part
from topoopt.studies.vary import Factors, cell_of, combinations, seeds_of, varied

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
    file, kept = (whole, range(len(whole.instances))) if whole else sound_part(document, findings.faults)
    if document.faults or file is None:
        # numbers that are none may stand in an instance, where the shape of a study takes anything
        return None, document.problems(findings.faults)
    faults: list[Fault] = []
    if small:
        if file.small is None:
            return None, document.problems([Fault(("small",), "this study has no small form")])
        file = file.model_copy(update={"instances": file.small.instances, "limits": file.small.limits})
        kept = range(len(file.instances))
    study = _study_of(file, document, faults)
    findings.add(at_their_place(fault, kept) for fault in faults)
    return study, document.problems(findings.faults)


def _study_of(file: StudyFile, document: Document, faults: list[Fault]) -> Study:
    """The study of a file in its shape; what is wrong with it is added to `faults`."""
    versions = code_versions()
    runs = _Expansion(file, Path(document.file).parent, dict(versions), faults).runs()
    return Study(
        name=file.name,
        title=file.title or file.name,
        notes=tuple(file.notes),
        runs=tuple(runs),
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
            Published(**{**each.model_dump(), "where": tuple(each.where.items())}) for each in file.published
        ),
        names=tuple(file.names.items()),
        file=document.file,
        sha256=canonical_sha256(file.model_dump(mode="json", by_alias=True)),
        versions=versions,
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

    def __init__(self, file: StudyFile, folder: Path, versions: dict[str, str], faults: list[Fault]) -> None:
        self.file, self.folder, self.versions, self.faults = file, folder, versions, faults
        self.references = References()

    def runs(self) -> list[StudyRun]:
        """All runs, in order; nothing of a group with faults."""
        runs: list[StudyRun] = []
        for index, group in enumerate(self.file.instances):
            runs += self._group(group, ("instances", index))
            if len(runs) > MAX_RUNS:
                self.faults.append(Fault(("instances",), "too many runs", str(len(runs)), f"at most {MAX_RUNS}"))
                return []
        return [replace(run, position=position) for position, run in enumerate(runs)]

    def _group(self, group: GroupFile, around: DataPath) -> list[StudyRun]:
        given = [key for key in ("file", "instance", "command") if getattr(group, key) is not None]
        if group.command in ON_INSTANCES:
            given.remove("command")
        if len(given) != 1:
            text = "one of file, instance and command"
            self.faults.append(Fault(around, "what to run is not clear", ", ".join(given) or None, text))
            return []
        if group.options and group.command is None:
            self.faults.append(Fault((*around, "options"), "no command they belong to", allowed="only beside command"))
        cases = combinations(group, around, self.faults)
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
        found = sorted(glob.glob(str(self.folder / pattern), recursive=True))
        files = [name for name in found if Path(name).is_file()]
        if not files:
            message = "no such file" if glob.escape(pattern) == pattern else "no file fits this pattern"
            allowed = f"a file, relative to {self.folder}"
            self.faults.append(Fault((*around, "file"), message, value_text(pattern), allowed))
        return [self._base(name, group, around) for name in files]

    def _base(self, name: str, group: GroupFile, around: DataPath) -> _Base:
        try:
            document = parse_document(name)
        except InputError:
            if group.vary or group.together:
                self.faults.append(Fault((*around, "file"), "cannot be parsed, so nothing in it can vary", name))
            return _Base(group.label or Path(name).stem, None, name)
        data = document.data if isinstance(document.data, dict) and not document.faults else None
        return _Base(group.label or Path(name).stem, data, name)

    def _instance(self, base: _Base, case: Factors) -> tuple[str | None, dict[str, Any]] | None:
        """Canonical JSON of a varied instance, None where it cannot be parsed, and what determines it."""
        if base.document is None:
            return None, {"raw": self.references.sha256(base.source)}
        try:
            instance = varied(base.document, case)
        except KeyError as error:
            self.faults.append(Fault(("instances",), f"nothing in {base.name} that could vary here", error.args[0]))
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
        self.faults += faults_of_options(given)
        options, files = with_found_files(given, self.folder, self.faults)
        words = tuple((group.command or "").split())
        content = {**read[1], **({"options": files} if files else {})}
        digest = canonical_sha256(content) if content else ""
        limits = limits_of(group.limits, self.file.limits)
        named = base or _Base(group.label or "-".join(words), None, "")
        factors = tuple({**given, **dict(case)}.items())
        return [self._run(named, factors, read[0], digest, words, words_of(options), None, None, 0, limits)]

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
        cells = tuple((path, cell_of(value)) for path, value in factors)
        return StudyRun(
            position=0,
            identity=identity_of(parts),
            instance=base.name,
            command=command,
            arguments=arguments,
            document=text,
            source=base.source,
            method=method,
            seed=seed,
            repetition=repetition,
            factors=cells,
            limits=limits,
        )


def _options(method: str, seed: int, limits: RunLimits) -> tuple[str, ...]:
    words = ["--method", method, "--seed", str(seed)]
    if limits.time_limit_s is not None:
        words += ["--time-limit", repr(limits.time_limit_s)]
    if limits.budget is not None:
        words += ["--budget", str(limits.budget)]
    return tuple(words)
