"""From what pydantic reports to faults: the path in the file, the value there, and what the schema allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from topoopt.files.faults import Fault, Path, key_text, nearest_text, value_text
from topoopt.files.fields import PATTERN_WORDS

JsonSchema = Mapping[str, Any]

MAX_REPORTED = 20_000
"""Errors of one file that are looked at one by one; pydantic takes about a kilobyte for each."""

_PLAIN = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}

_RANGE = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}


def _follow(node: JsonSchema, root: JsonSchema) -> JsonSchema:
    """The schema behind references and behind `or null`."""
    while True:
        if "$ref" in node:
            node = {**root["$defs"][node["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in node.items() if k != "$ref"}}
        elif "anyOf" in node:
            others = [option for option in node["anyOf"] if option.get("type") != "null"]
            around = {key: value for key, value in node.items() if key != "anyOf"}
            node = {**others[0], **around, "nullable": len(others) < len(node["anyOf"])}
        else:
            return node


def _descend(root: JsonSchema, location: Path, *, inside: bool = False) -> tuple[Path, JsonSchema]:
    """Path without the names of union members, and the schema of what stands there; `inside`: of the member named."""
    path: list[str | int] = []
    raw: JsonSchema = root
    node = _follow(root, root)
    for depth, part in enumerate(location):
        shape = _shape(raw, part)
        if shape is not None:
            raw = shape
            node = _follow(shape, root)
            continue
        member = next((one for one in node.get("oneOf", ()) if _is_named(one, part)), None)
        if member is not None:
            # A location that ends on the member's name means the value is of neither shape.
            node = node if depth == len(location) - 1 and not inside else _follow(member, root)
            continue
        path.append(part)
        if isinstance(part, int):
            prefix = node.get("prefixItems", ())
            below = prefix[part] if part < len(prefix) else node.get("items", {})
        else:
            # Keys that must follow a pattern have their schema elsewhere.
            named: JsonSchema = next(iter(node.get("patternProperties", {}).values()), {})
            below = node.get("properties", {}).get(part, node.get("additionalProperties", named))
        raw = below if isinstance(below, dict) else {}
        node = _follow(raw, root) if raw else {}
    return tuple(path), node


def _shape(raw: JsonSchema, part: str | int) -> JsonSchema | None:
    """The shape of a value that may have several without a name to tell them apart, if `part` stands for one."""
    options = [option for option in raw.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) < 2 or not isinstance(part, str):
        return None
    if part.startswith("list["):
        return next((option for option in options if option.get("type") == "array"), None)
    return next((option for option in options if _is_named(option, part)), None)


def _is_named(option: JsonSchema, part: str | int) -> bool:
    """Whether a part of a location is the name of a shape: that of its class, or of a plain type."""
    return option.get("$ref", "").endswith(f"/{part}") or (part in _PLAIN and option.get("type") == _PLAIN[str(part)])


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _span(node: JsonSchema, low: str, high: str) -> str:
    least, most = node.get(low), node.get(high)
    if least is not None and most is not None:
        return f"{_number(least)} to {_number(most)}"
    return f"at least {_number(least)}" if least is not None else f"at most {_number(most)}" if most is not None else ""


def describe(node: JsonSchema) -> str:
    """What a schema allows, in words."""
    if "const" in node:
        text = str(node["const"])
    elif "enum" in node:
        text = "one of: " + ", ".join(str(name) for name in node["enum"] if name is not None)
    elif node.get("type") == "integer" and "minimum" in node and node["minimum"] == node.get("maximum"):
        text = str(node["minimum"])
    elif node.get("type") == "integer":
        text = f"a whole number {_span(node, 'minimum', 'maximum')}".strip()
    elif node.get("type") == "number":
        above = node.get("exclusiveMinimum")
        span = f"more than {above:g}" if above is not None else ""
        text = " and ".join(part for part in (span, _span(node, "minimum", "maximum")) if part)
        text = f"a finite number {text}".strip().replace("and at most", "up to")
    elif node.get("type") == "boolean":
        text = "true or false"
    elif node.get("type") == "string":
        length = _span(node, "minLength", "maxLength")
        text = PATTERN_WORDS.get(node.get("pattern", ""), "text")
        text += f" ({length} characters)" if length else ""
    elif node.get("type") == "array":
        text = f"a list of {_span(node, 'minItems', 'maxItems')} items" if "maxItems" in node else "a list"
        names = node.get("items", {}).get("enum")
        text += f", each one of: {', '.join(map(str, names))}" if names else ""
    elif "oneOf" in node:
        text = str(node.get("description", "a mapping, either with model or with operators"))
    elif "properties" in node:
        text = "a mapping of " + ", ".join(node["properties"])
    elif node.get("type") == "object":
        text = "a mapping"
    else:
        text = ""
    return f"{text}, or null" if node.get("nullable") and text else text


def _fault(error: Mapping[str, Any], root: JsonSchema) -> Fault:
    kind = error["type"]
    location: Path = tuple(error["loc"])
    if kind == "extra_forbidden":
        around, node = _descend(root, location[:-1], inside=True)
        name = location[-1]
        path = (*around, name)
        allowed = nearest_text(name, node.get("properties", ()))
        return Fault(path, f"unknown key {key_text(str(name))}", value=value_text(error["input"]), allowed=allowed)
    path, node = _descend(root, location)
    allowed = describe(node)
    if kind == "missing":
        return Fault(path, "missing", allowed=allowed or None)
    value = error["input"]
    too_large = isinstance(value, int) and not isinstance(value, bool) and node.get("type") == "number"
    if kind in _RANGE or too_large:
        message = "out of range"
    elif kind == "finite_number":
        message = "not a finite number"
    elif kind in {"literal_error", "enum"}:
        message = "not one of the allowed values"
        if "enum" in node:
            allowed = nearest_text(value, node["enum"])
    elif kind in {"too_long", "too_short", "string_too_long", "string_too_short"}:
        message = "wrong length"
    elif kind == "string_pattern_mismatch":
        message = "characters that are not allowed here"
    elif kind.endswith("_type") or kind == "int_from_float":
        message = "wrong type"
    else:
        message = str(error["msg"])
    return Fault(path, message, value=value_text(value), allowed=allowed or None)


def _choice(location: Path, root: JsonSchema) -> int | None:
    """Place in a location of the name of a shape, where a value may have several plain ones."""
    for place in range(1, len(location)):
        if not isinstance(location[place], str):  # a place in a list
            continue
        options = _options(root, location[:place])
        if len(options) > 1 and not any("$ref" in option or "properties" in option for option in options):
            return place
    return None


def _options(root: JsonSchema, location: Path) -> list[JsonSchema]:
    """Shapes that a value may have."""
    node = root
    for part in location:
        node = _follow(node, root)
        inner = node.get("properties", {}).get(part) if isinstance(part, str) else node.get("items")
        if not isinstance(inner, dict):
            return []
        node = inner
    return [option for option in node.get("anyOf", ()) if option.get("type") != "null"]


def _by_choice(errors: Sequence[Mapping[str, Any]], root: JsonSchema) -> list[list[Mapping[str, Any]]]:
    """Errors of one value that has none of its shapes, together."""
    groups: dict[Path, list[Mapping[str, Any]]] = {}
    for place, error in enumerate(errors):
        location: Path = tuple(error["loc"])
        name = _choice(location, root)
        groups.setdefault((place,) if name is None else location[:name], []).append(error)
    return list(groups.values())


def _faults(group: Sequence[Mapping[str, Any]], root: JsonSchema) -> list[Fault]:
    """Of a value that may have several shapes: what is wrong with its items, or all that may stand there."""
    place = _choice(tuple(group[0]["loc"]), root)
    if place is None:
        return [_fault(error, root) for error in group]
    inside = [error for error in group if len(error["loc"]) > place + 1]
    if inside:
        return [_fault(error, root) for error in inside]
    path: Path = tuple(group[0]["loc"][:place])
    value = group[0]["input"]
    allowed = " or ".join(dict.fromkeys(describe(option) for option in _options(root, path)))
    return [Fault(path, "not one of the allowed values", value=value_text(value), allowed=allowed)]


@cache
def _schema(model: type[BaseModel]) -> JsonSchema:
    return model.model_json_schema()


def schema_faults(model: type[BaseModel], error: ValidationError, below: Path = ()) -> list[Fault]:
    """Faults of a failed validation of `model`; `below` is where the model stands in the file."""
    count = error.error_count()
    if count > MAX_REPORTED:
        return [Fault(below, f"{count} values are wrong, too many to list", allowed="a file that follows the schema")]
    root = _schema(model)
    # pydantic drops inputs from its texts, not from its records, so each value is still there to be shown.
    errors = error.errors(include_url=False, include_context=False)
    faults = [fault for group in _by_choice(errors, root) for fault in _faults(group, root)]
    return [Fault((*below, *fault.path), fault.message, fault.value, fault.allowed) for fault in faults]
