"""Descriptions of model files in words, for people who ask what is in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dualembed.saving.classes import class_name
from dualembed.saving.functions import MissingFunction

MISSING = class_name(MissingFunction)
FIXED = {"text": "array of text", "objects": "array of objects", "key": "random key", "default": "default"}


def words(node: Any, tensors: Mapping[str, np.ndarray]) -> Any:
    """A description as plain values where it is one, else as text such as Gaussian(bandwidth=0.5)."""
    if isinstance(node, list):
        return [words(each, tensors) for each in node]
    if not isinstance(node, dict):
        return node
    kind, content = next(iter(node.items()))
    if kind == "class":
        return _object(content, node["fields"], tensors)
    if kind in ("tuple", "set", "frozenset"):
        return [words(each, tensors) for each in content]
    if kind == "dict":
        return {str(words(name, tensors)): words(each, tensors) for name, each in content}
    if kind in ("numpy", "jax"):
        return f"array of shape {tensors[content].shape[:: -1 if node.get('transposed') else 1]}"
    if kind == "scalar":
        return tensors[content].item()
    if kind == "partial":
        return words(content[0], tensors)
    return FIXED.get(kind, str(content))


def _object(name: str, fields: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    if name == MISSING:
        return f"function {fields['name']}"
    shown = (f"{key}={words(each, tensors)}" for key, each in fields.items())
    return f"{name.partition(':')[2]}({', '.join(shown)})"


def functions_in(node: Any) -> Iterator[str]:
    """The names of functions that a description has lost."""
    if isinstance(node, dict):
        if node.get("class") == MISSING:
            yield node["fields"]["name"]
        node = list(node.values())
    for each in node if isinstance(node, list) else ():
        yield from functions_in(each)
