"""From a description back to the parts of a model; whatever the description says, none of it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed.saving.classes import class_named, fields_of, instance_of
from dualembed.saving.functions import MissingFunction, known_functions

LAST_LETTER = 0x10FFFF


class Builder:
    """Builds values from their descriptions; `functions` are those given again, by name.

    Arrays are shared wherever they were equal, and cannot be written to for that reason; so a file never takes more
    memory than its own size a few times over.
    """

    def __init__(self, tensors: Mapping[str, np.ndarray], functions: Mapping[str, Callable[..., Any]]) -> None:
        self._tensors = tensors
        self._functions = functions
        self._on_device: dict[str, jax.Array] = {}
        self.missing: set[str] = set()  # names of functions that the model had, given again or not

    def value(self, node: Any) -> Any:
        """The value of a description."""
        if isinstance(node, list):
            return [self.value(each) for each in node]
        if not isinstance(node, dict):
            return node
        built: Callable[[dict[str, Any]], Any] = getattr(self, f"_{BY_KEY[next(iter(node), '')]}")
        return built(node)

    def _collection(self, node: dict[str, Any]) -> Any:
        ((kind, values),) = node.items()
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](self.value(values))

    def _dictionary(self, node: dict[str, Any]) -> Any:
        return {self.value(name): self.value(each) for name, each in node["dict"]}

    def _number(self, node: dict[str, Any]) -> float:
        return float(node["float"])

    def _bytes(self, node: dict[str, Any]) -> bytes:
        return bytes.fromhex(node["bytes"])

    def _array(self, node: dict[str, Any]) -> np.ndarray:
        found = self._tensors[node["numpy"]]
        return found.T if node.get("transposed") else found

    def _scalar(self, node: dict[str, Any]) -> Any:
        return self._tensors[node["scalar"]][()]

    def _text(self, node: dict[str, Any]) -> Any:
        codes = self._tensors[node["text"]]
        if codes.dtype != np.uint32 or codes.max(initial=0) > LAST_LETTER:
            raise ValueError("an array that is no text")
        *shape, width = codes.shape
        letters = np.frombuffer(codes.tobytes(), dtype=f"<U{width}").reshape(shape)
        return letters[()] if node["scalar"] else letters

    def _objects(self, node: dict[str, Any]) -> np.ndarray:
        found = np.empty(len(node["objects"]), dtype=object)
        for number, each in enumerate(node["objects"]):  # one by one, lest NumPy takes tuples apart
            found[number] = self.value(each)
        return found.reshape(node["shape"])

    def _jax(self, node: dict[str, Any]) -> jax.Array:
        name = node["jax"]
        if name not in self._on_device:
            with jax.enable_x64(True):  # whatever precision is in force, the array has its own
                self._on_device[name] = jnp.array(self._tensors[name])
        return self._on_device[name]

    def _key(self, node: dict[str, Any]) -> jax.Array:
        return jax.random.wrap_key_data(jnp.array(self._tensors[node["key"]]), impl=node["method"])

    def _object(self, node: dict[str, Any]) -> Any:
        kind = class_named(node["class"])
        values = {}
        for name, described in node["fields"].items():
            default = described == {"default": True}
            values[name] = fields_of(kind)[name] if default else self.value(described)
        made = instance_of(kind, values)
        if kind is not MissingFunction:
            return made
        self.missing.add(made.name)
        return self._functions.get(made.name, made)

    def _function(self, node: dict[str, Any]) -> Any:
        return known_functions()[node["function"]]

    def _partial(self, node: dict[str, Any]) -> Any:
        function, args, keywords = map(self.value, node["partial"])
        return jax.tree_util.Partial(function, *args, **keywords)


# The method of Builder for the first key of a description.
BY_KEY = {
    "tuple": "collection",
    "set": "collection",
    "frozenset": "collection",
    "dict": "dictionary",
    "float": "number",
    "bytes": "bytes",
    "numpy": "array",
    "scalar": "scalar",
    "text": "text",
    "objects": "objects",
    "jax": "jax",
    "key": "key",
    "class": "object",
    "function": "function",
    "partial": "partial",
}
