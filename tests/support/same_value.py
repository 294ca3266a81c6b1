"""Whether two values of core are the same, to the last bit."""

from __future__ import annotations

import dataclasses

import numpy as np


def assert_same(one: object, other: object, where: str = "solution") -> None:
    """Equal in type and value, arrays in dtype, shape and every bit, all the way down."""
    assert type(one) is type(other), where
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert one.tobytes() == other.tobytes(), where
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name), f"{where}.{field.name}")
    elif isinstance(one, tuple):
        assert isinstance(other, tuple)
        assert len(one) == len(other), where
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            assert_same(left, right, f"{where}[{index}]")
    else:
        assert one == other, where
