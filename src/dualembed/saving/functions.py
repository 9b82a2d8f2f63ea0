"""Functions in model files: a few known ones by name; of all others the name alone, since files must not bring code."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks

# What networks are made of. None of these reads or writes anything, whatever it is given.
ACTIVATIONS = (
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_tanh", "identity", "leaky_relu", "log_sigmoid",
    "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus",
    "sparse_plus", "sparse_sigmoid", "squareplus", "tanh",
)  # fmt: skip
ELEMENTWISE = ("abs", "arctan", "cos", "exp", "log1p", "maximum", "minimum", "sin", "sinc", "sqrt", "square")


@dataclasses.dataclass(frozen=True)
class MissingFunction:
    """A function that a model had when it was saved, known by its name only; calling it says how to give it again.

    `parameter` is the constructor's parameter that it was, if it was one.
    """

    name: str
    parameter: str | None = None

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        again = f"load(path, functions={{{self.name!r}: ...}})"
        if self.parameter is not None:
            again += f" or model.set_params({self.parameter}=...)"
        raise checks.InputError(f"the function {self.name} is not kept in model files; give it again by {again}")


@functools.cache
def known_functions() -> dict[str, Callable[..., Any]]:
    """The functions that are found again on load, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for module, names in ((jax.nn, ACTIVATIONS), (jnp, ELEMENTWISE)):
        found |= {f"{module.__name__}:{name}": getattr(module, name) for name in names if hasattr(module, name)}
    # An equinox network ends with a nameless identity by default.
    for argument in inspect.signature(eqx.nn.MLP).parameters.values():
        if inspect.isfunction(argument.default):
            found[f"equinox.nn:MLP.{argument.name}"] = argument.default
    return found


def known_name(function: Any) -> str | None:
    """The name by which the function is found again, or None."""
    return next((name for name, known in known_functions().items() if known is function), None)


def importable_name(function: Any) -> str | None:
    """ "module:qualname", or None for lambdas, functions within functions and callable objects."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and re.fullmatch(r"\w+(\.\w+)*", name):
        return f"{module}:{name}"
    return None
