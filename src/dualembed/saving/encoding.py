"""Parts of a model as a description in JSON's terms and a few arrays, and back; nothing that a description says is run.

None, True, numbers, text and lists stand for themselves. Everything else is a dictionary whose first key says what it
is: tuple, dict, set, frozenset, float (that JSON lacks), bytes, numpy, scalar, text, objects, jax, key, class, default,
function or partial. `Encoder` describes, `Decoder` builds, and `words` says in words what is described.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.saving.allowed import (
    MissingFunction,
    class_name,
    class_named,
    fields_of,
    importable_name,
    instance_of,
    known_functions,
    known_name,
)

DTYPES = "?bBhHiIlLqQefdF"  # characters of the dtypes that safetensors has
LAST_LETTER = 0x10FFFF  # of Unicode
MISSING = class_name(MissingFunction)
FIXED = {"text": "array of text", "objects": "array of objects", "key": "random key", "default": "default"}


class Encoder:
    """Describes values one after the other; `tensors` are the arrays so far, equal ones once."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}
        self._names: dict[Any, str] = {}
        self._missing: dict[int, tuple[Any, MissingFunction]] = {}  # by identity; the object is kept so that it lives

    def parameter(self, value: Any, name: str) -> Any:
        """The description of a constructor's parameter; any callable will do."""
        ours = class_name(type(value)) is not None or isinstance(value, jax.tree_util.Partial)
        acts = callable(value) or any(hasattr(value, name) for name in ("predict", "predict_proba", "actions"))
        if acts and not ours and known_name(value) is None:
            return self._object(self._missing_function(value, name, name), name)
        return self.value(value, name)

    def value(self, value: Any, place: str) -> Any:
        """The description of a value, which is at that place in the model."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) is list:
            return self._each(value, place)
        for kind, described in self._kinds():
            if isinstance(value, kind):
                return described(value, place)
        if class_name(type(value)) is not None:
            return self._object(value, place)
        if callable(value):
            return self._callable(value, place)
        raise self._refusal(value, place)

    def _kinds(self) -> tuple[tuple[Any, Callable[[Any, str], Any]], ...]:
        return (
            (np.generic, lambda value, place: self._array(np.asarray(value), place, "scalar")),
            (np.ndarray, lambda value, place: self._array(value, place, "numpy")),
            (jax.Array, self._jax),
            (jax.tree_util.Partial, self._partial),
            ((tuple, dict, set, frozenset), self._collection),
            (bytes, lambda value, _: {"bytes": value.hex()}),
        )

    def _each(self, values: Any, place: str) -> list[Any]:
        return [self.value(value, f"{place}[{number}]") for number, value in enumerate(values)]

    def _collection(self, value: Any, place: str) -> Any:
        kind = type(value)
        if kind is dict:
            pairs = [[self.value(name, place), self.value(each, f"{place}.{name}")] for name, each in value.items()]
            return {"dict": pairs}
        if kind not in (tuple, set, frozenset):
            if class_name(kind) is None:
                raise self._refusal(value, place)
            return self._object(value, place)
        # Sets have no order of their own, but equal models should be equal files.
        return {kind.__name__: self._each(value if kind is tuple else sorted(value, key=repr), place)}

    def _object(self, value: Any, place: str) -> Any:
        fields = {}
        for name, default in fields_of(type(value)).items():
            own = getattr(value, name)
            # An optimiser is closures, of which nothing can be kept; that it is the default one can.
            default_pair = own is default and type(own).__module__.startswith("optax.")
            fields[name] = {"default": True} if default_pair else self.value(own, f"{place}.{name}")
        return {"class": class_name(type(value)), "fields": fields}

    def _array(self, array: np.ndarray, place: str, kind: str) -> Any:
        if array.dtype.kind == "O":
            return {"objects": self._each(array.reshape(-1).tolist(), place), "shape": list(array.shape)}
        if array.dtype.kind == "U":
            width = max(array.dtype.itemsize // 4, 1)
            letters = np.array(array, dtype=f"<U{width}", order="C")
            codes = np.frombuffer(letters.tobytes(), dtype="<u4").reshape(*array.shape, width)
            return {"text": self._tensor(codes), "scalar": kind == "scalar"}
        if array.dtype.char not in DTYPES:
            raise self._refusal(array, place)
        # Products in BLAS may round differently by the order in memory, which is why it is kept.
        turned = array.ndim > 1 and not array.flags.c_contiguous and list(array.strides) == sorted(array.strides)
        node = {kind: self._tensor(array.T if turned else array)}
        return {**node, "transposed": True} if turned else node

    def _jax(self, array: jax.Array, place: str) -> Any:
        if isinstance(array, jax.core.Tracer):
            raise self._refusal(array, place)
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            data = np.asarray(jax.random.key_data(array))
            return {"key": self._tensor(data), "method": str(jax.random.key_impl(array))}
        return self._array(np.ascontiguousarray(array).reshape(array.shape), place, "jax")

    def _tensor(self, array: np.ndarray) -> str:
        """The name of the stored array that has these numbers."""
        kept = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C")
        content = kept.dtype.str, kept.shape, hashlib.sha256(kept.tobytes()).digest()
        name = self._names.setdefault(content, str(len(self._names)))
        self.tensors[name] = kept
        return name

    def _partial(self, value: Any, place: str) -> Any:
        function = self.value(value.func, place)
        return {"partial": [function, self._each(value.args, place), self.value(value.keywords, place)]}

    def _callable(self, value: Any, place: str) -> Any:
        name = known_name(value)
        if name is not None:
            return {"function": name}
        # A callable object may be asked for more than its values, which a name cannot give; a function may not.
        if not hasattr(value, "__qualname__") and id(value) not in self._missing:
            raise self._refusal(value, place)
        # Setting the parameter again would not reach what the fit has made of it.
        return self._object(dataclasses.replace(self._missing_function(value, place), parameter=None), place)

    def _missing_function(self, value: Any, place: str, parameter: str | None = None) -> MissingFunction:
        if id(value) not in self._missing:
            name = importable_name(value)
            taken = name in {known.name for _, known in self._missing.values()}  # as when a notebook defines it twice
            self._missing[id(value)] = value, MissingFunction(place if taken or name is None else name, parameter)
        return self._missing[id(value)][1]

    def _refusal(self, value: Any, place: str) -> checks.InputError:
        kind = type(value)
        what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {kind.__module__}.{kind.__name__}"
        return checks.InputError(
            f"{place} is {what}, which model files cannot keep; they keep numbers, text, arrays and parts of dualembed "
            "and of equinox.nn"
        )


class Decoder:
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
        array = self._tensors[node["numpy"]]
        return array.T if node.get("transposed") else array

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
        objects = np.empty(len(node["objects"]), dtype=object)
        for number, each in enumerate(node["objects"]):  # one by one, lest NumPy takes tuples apart
            objects[number] = self.value(each)
        return objects.reshape(node["shape"])

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


# The method of Decoder for the first key of a description.
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
    own = re.split("[.:]", name)[-1]
    return f"{own}({', '.join(shown)})"


def functions_in(node: Any) -> Iterator[str]:
    """The names of functions that a description has lost."""
    if isinstance(node, dict):
        if node.get("class") == MISSING:
            yield node["fields"]["name"]
        node = list(node.values())
    for each in node if isinstance(node, list) else ():
        yield from functions_in(each)
