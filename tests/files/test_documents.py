"""Reading YAML and JSON of unknown origin."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoopt.core.errors import InputError
from topoopt.files.documents import Limits, load_document
from topoopt.files.issues import parse_path, path_text


def refused(path: Path, text: str | bytes, limits: Limits | None = None) -> InputError:
    """The error a file with this content gives; every problem names the file, and the exit code is 2."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        load_document(path, limits or Limits())
    assert caught.value.exit_code == 2
    assert all(problem.file == str(path) for problem in caught.value.problems)
    return caught.value


def loaded(path: Path, text: str) -> object:
    """Data of a file with this content."""
    path.write_text(text, encoding="utf-8")
    return load_document(path).data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e5", 100000.0),
        ("-12", -12),
        ("0o17", 15),
        ("0xfF", 255),
        (".5", 0.5),
        ("1.", 1.0),
        ("yes", "yes"),
        ("off", "off"),
        ("017", 17),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("", None),
        ("null", None),
        ("True", True),
        ("'1'", "1"),
        ('"true"', "true"),
    ],
)
def test_plain_scalars_follow_the_core_schema(tmp_path: Path, text: str, value: object) -> None:
    """Scalars resolve as section 10.3.2 of YAML 1.2 says, not as YAML 1.1 did (yes, octal, sexagesimal, dates)."""
    found = loaded(tmp_path / "a.yaml", f"key: {text}\n")
    assert found == {"key": value}
    assert type(found["key"]) is type(value)  # type: ignore[index]


def test_lines_of_yaml_and_json_point_at_keys_and_items(tmp_path: Path) -> None:
    """A path has the line of its key or list item; a path that is not there has that of what is around it."""
    yaml = "a:\n  b: 1\n  c:\n  - 1\n  -\n    d: 2\n"
    text = '{"a": {\n"b": 1,\n"c": [\n1,\n\n{"d": "],\\"{"}]}}'
    for name, content, lines in (("x.yaml", yaml, [1, 2, 3, 4, 6, 3]), ("x.json", text, [1, 2, 3, 4, 6, 3])):
        path = tmp_path / name
        path.write_text(content)
        document = load_document(path)
        asked = [("a",), ("a", "b"), ("a", "c"), ("a", "c", 0), ("a", "c", 1, "d"), ("a", "c", 7, "z")]
        assert [document.line(one) for one in asked] == lines


@pytest.mark.parametrize(
    ("name", "text", "line", "word"),
    [
        ("a.yaml", "a: 1\nb: [1, 2\nc: 3\n", 3, "broken YAML"),
        ("a.yaml", "a: 1\n b: 2\n", 2, "broken YAML"),
        ("a.yaml", "a: b: c\n", 1, "broken YAML"),
        ("a.yaml", "a: 'open\n", 2, "broken YAML"),
        ("a.yaml", "", 1, "empty"),
        ("a.yaml", "# nothing\n", 1, "empty"),
        ("a.yaml", "a: 1\n---\nb: 2\n", 2, "second document"),
        ("a.yaml", "a: 1\nb: 2\na: 3\n", 3, "duplicate key, first on line 1"),
        ("a.yaml", "a: 1\nb: &x 2\n", 2, "anchors and aliases"),
        ("a.yaml", "a: 1\nb: *x\n", 2, "anchors and aliases"),
        ("a.yaml", "a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "tags"),
        ("a.yaml", "a: 1\nb: !!float 3\n", 2, "tags"),
        ("a.yaml", "? [a, b]\n: 1\n", 1, "a key is a mapping or list"),
        ("a.yaml", "a: 1\n2: x\n", 2, "a key that is not text"),
        ("a.yaml", "a: 1\nb: .nan\n", 2, "not a finite number"),
        ("a.yaml", "a: 1\nb: -.inf\n", 2, "not a finite number"),
        ("a.yaml", "a: 1\nb: 1e999\n", 2, "not a finite number"),
        ("a.yaml", f"a: 1\nb: {'9' * 5000}\n", 2, "not a finite number"),
        ("a.json", '{"a": 1,\n"b" 2}', 2, "broken JSON"),
        ("a.json", '{"a": 1}\n{"b": 2}', 2, "broken JSON"),
        ("a.json", "", 1, "broken JSON"),
        ("a.json", '{"a": 1,\n"b": {"c": 1,\n"c": 2}}', 3, "duplicate key, first on line 2"),
        ("a.json", '{"a": 1,\n"b": NaN}', 2, "not a finite number"),
        ("a.json", '{"a": 1,\n"b": [-Infinity]}', 2, "not a finite number"),
        ("a.json", '{"a": 1,\n"b": -1e999}', 2, "not a finite number"),
        ("a.json", '{"a": 1,\n"b": ' + "9" * 5000 + "}", 2, "not a finite number"),
        ("a", '{"a": 1,\n"b" 2}', 2, "broken JSON"),
    ],
)
def test_broken_files_are_refused_with_the_line(tmp_path: Path, name: str, text: str, line: int, word: str) -> None:
    """Every way a document can be broken gives one problem with its line."""
    (problem,) = refused(tmp_path / name, text).problems
    assert problem.line == line
    assert word in problem.message
    assert problem.allowed


def test_all_issues_of_a_document_are_listed_in_file_order(tmp_path: Path) -> None:
    """Duplicate keys and numbers that are not finite are collected, not reported one by one."""
    error = refused(tmp_path / "a.json", '{"a": NaN,\n"b": 1,\n"b": [1,\nInfinity]}')
    assert [(problem.line, problem.path) for problem in error.problems] == [(1, "a"), (3, "b"), (4, "b[1]")]


@pytest.mark.parametrize("content", [b"\xff\xfea\x00", b"a: \xc3\x28\n", b"\x80\x04\x95"])
def test_files_that_are_not_utf8_are_refused(tmp_path: Path, content: bytes) -> None:
    """UTF-16, broken UTF-8 and a pickle are told apart from text."""
    (problem,) = refused(tmp_path / "a.yaml", content).problems
    assert problem.message == "not UTF-8 text"
    assert problem.line == 1


def test_control_characters_are_refused(tmp_path: Path) -> None:
    """A zero byte passes as UTF-8 but not as YAML; the line is given all the same."""
    (problem,) = refused(tmp_path / "a.yaml", b"a: 1\nb: \x00\n").problems
    assert problem.line == 2


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe nobody writes to and an endless device give a message instead of waiting."""
    os.mkfifo(tmp_path / "pipe.yaml")
    for path, message in (
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "this is a folder"),
        (tmp_path / "pipe.yaml", "this is not a regular file"),
        (Path("/dev/zero"), "this is not a regular file"),
    ):
        with pytest.raises(InputError) as caught:
            load_document(path)
        assert [problem.message for problem in caught.value.problems] == [message]
    with pytest.raises(InputError, match="cannot be read"):
        load_document("a\0b")


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without read permission is named with the reason; refused here, as nothing stops the superuser."""
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")

    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        load_document(path)


def test_sizes_are_bounded_before_memory_is_taken(tmp_path: Path) -> None:
    """Bytes, values and nesting have limits that are named in the refusal."""
    small = Limits(json_bytes=1000, json_nodes=100, yaml_bytes=500, yaml_nodes=70)
    for name, text, word, allowed in (
        ("a.json", json.dumps(["x" * 2000]), "too large", "1000 bytes"),
        ("a.yaml", "a: " + "x" * 600, "too large", "500 bytes"),
        ("a.json", json.dumps([1] * 200), "too many values", "100 values"),
        ("a.yaml", "- 1\n" * 80, "too many values", "at most 70"),
        ("a.yaml", "[" * 400, "nested too deeply", "64 levels"),
        ("a.json", "[" * 70 + "]" * 70, "nested too deeply", "64 levels"),
    ):
        (problem,) = refused(tmp_path / name, text, small).problems
        assert word in problem.message
        assert allowed in str(problem.allowed)
    (problem,) = refused(tmp_path / "deep.json", "[" * 500_000, Limits()).problems
    assert "nested too deeply" in problem.message


def test_an_alias_bomb_ends_at_its_first_anchor(tmp_path: Path) -> None:
    """Nine lists of nine aliases each would be 9^9 values; not one is expanded."""
    bomb = "a: &a [x, x]\n" + "".join(
        f"{after}: &{after} [{', '.join(f'*{before}' for _ in range(9))}]\n"
        for before, after in zip("abcdefgh", "bcdefghi", strict=True)
    )
    (problem,) = refused(tmp_path / "bomb.yaml", bomb).problems
    assert problem.line == 1


def test_brackets_inside_text_are_not_nesting(tmp_path: Path) -> None:
    """Two hundred brackets in a JSON string are text."""
    text = "[" * 200
    assert loaded(tmp_path / "a.json", json.dumps({"a": text})) == {"a": text}


def issue_count(path: Path) -> int:
    """Problems of a document, 0 if it loads; any exception but InputError is let through."""
    try:
        load_document(path)
    except InputError as error:
        return len(error.problems)
    return 0


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(plain)
@settings(max_examples=150)
def test_json_comes_back_as_it_went(scratch: Path, value: object) -> None:
    """Whatever JSON can hold is read back equal, types included, and every value has a line."""
    path = scratch / "value.json"
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    document = load_document(path)
    assert repr(document.data) == repr(json.loads(json.dumps(value)))
    if isinstance(value, dict):
        assert all(document.locate(frozenset({(key,)})) for key in value)


@given(st.text(max_size=60) | st.text(":{}[],&*!|>'\"%@`#-? \n\tab1", max_size=60))
@settings(max_examples=300)
def test_any_text_gives_data_or_an_input_error(scratch: Path, text: str) -> None:
    """No text, however odd, makes the parsers fail in another way."""
    for name in ("any.yaml", "any.json"):
        path = scratch / name
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        assert issue_count(path) >= 0


@given(st.lists(st.from_regex(r"[a-z_]{1,5}", fullmatch=True) | st.integers(0, 99), max_size=5))
def test_paths_are_written_and_read_back(parts: list[str | int]) -> None:
    """`a.b[3]` stands for the keys a and b and the fourth item."""
    path = ("root", *parts)
    assert parse_path(str(path_text(path))) == path


@pytest.mark.parametrize(
    ("name", "text", "path"),
    [
        ("a.json", '{"a": ["x", "\\ud83d"]}', "a[1]"),
        ("a.json", '{"a": {"\\uDC00": 1}}', "a"),
        ("a.yaml", 'a: ["x", "\\ud83d"]', "a[1]"),
    ],
)
def test_half_characters_are_refused(tmp_path: Path, name: str, text: str, path: str) -> None:
    """A surrogate alone is no text that could be written anywhere; a pair of them is a character."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError, match="half a character") as caught:
        load_document(file)
    assert [problem.path for problem in caught.value.problems] == [path]
    (tmp_path / "b.json").write_text('["\\ud83d\\ude80"]')
    assert load_document(tmp_path / "b.json").data == ["\N{ROCKET}"]
