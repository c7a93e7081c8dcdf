"""Each vector of both files: what is expected must be there and equal.

Those of `derived_operations.json` follow from the rules, and have none of the other file's cases.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vectors.operations_adapter import run_vector

FOLDER = Path(__file__).parents[1] / "vectors"
FILES = ("operations.json", "derived_operations.json")
VECTORS = [vector for name in FILES for vector in json.loads((FOLDER / name).read_text("utf-8"))]


def differences(expected, found, where=""):
    """Where what was found lacks or contradicts what is expected. Lists match in full; null stands for no result.

    Keys that begin with `upstream` tell how another system spells it.
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        return [line for key, value in expected.items() if not key.startswith("upstream")
                for line in differences(value, found.get(key), f"{where}.{key}")]  # fmt: skip
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [
            line for index, (one, other) in pairs for line in differences(one, other, f"{where}[{index}]")
        ]
    same = expected == found and isinstance(expected, bool) == isinstance(found, bool)
    return [] if same else [f"{where}: expected {expected!r}, found {found!r}"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}-{vector['fn']}")
def test_vector(vector):
    assert differences(vector["expect"], run_vector(vector)) == [], vector["title"]
