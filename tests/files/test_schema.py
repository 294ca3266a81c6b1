"""The JSON Schema of instance files, and the table of kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation
from topoopt.kinds import KINDS, kind_named
from topoopt.kinds.files import json_schema
from topoopt.workloads.models import MODELS


def test_every_kind_has_its_line() -> None:
    """The name in the table, the name in the file and the name in the domain object are one."""
    assert CoOptimisation.kind in KINDS
    for name in KINDS:
        assert kind_named(name).name == name
        assert json_schema(name)["properties"]["kind"]["const"] == name


def resolve(schema: dict[str, Any], reference: str) -> dict[str, Any]:
    """What a local reference points to."""
    node: Any = schema
    assert reference.startswith("#/")
    for part in reference[2:].split("/"):
        node = node[part]
    assert isinstance(node, dict)
    return node


def test_the_schema_states_the_format() -> None:
    """Dialect, required keys, closed mappings, ranges and choices stand in it; all references lead somewhere."""
    schema = json_schema("co-optimisation")
    text = json.dumps(schema, allow_nan=False)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == ["schema_version", "kind", "name", "cluster", "workload"]
    assert schema["additionalProperties"] is False
    cluster = resolve(schema, schema["properties"]["cluster"]["$ref"])
    assert cluster["additionalProperties"] is False
    assert (cluster["properties"]["servers"]["minimum"], cluster["properties"]["servers"]["maximum"]) == (2, 4096)
    shapes = [resolve(schema, option["$ref"]) for option in schema["properties"]["workload"]["oneOf"]]
    assert {"operator_times", "operators"} <= {key for shape in shapes for key in shape["required"]}
    model = next(shape for shape in shapes if "model" in shape["properties"])
    assert model["properties"]["model"]["enum"] == list(MODELS)
    assert "samples_per_gpu" in model["properties"]["sizes"]["description"]

    def references(node: object) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if "$ref" in node else []
            return own + [found for value in node.values() for found in references(value)]
        return [found for value in node for found in references(value)] if isinstance(node, list) else []

    assert all(resolve(schema, reference) for reference in references(json.loads(text)))


def test_all_kinds_together_can_be_asked_for() -> None:
    """Without a kind the schema offers one alternative for each, references still leading somewhere."""
    schema = json_schema()
    text = json.dumps(schema)
    for reference in {part.split('"')[0] for part in text.split('"$ref": "')[1:]}:
        assert resolve(schema, reference)
    assert len(schema["oneOf"]) == len(KINDS)


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    """A slip of the pen is put right."""
    with pytest.raises(InputError, match="did you mean co-optimisation"):
        json_schema("cooptimisation")
