"""Methods that take what `fit` takes, or what f depends on: written once, with the signature that each class needs."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from dualembed.answers.task import Task

Method = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Data:
    """Tables and columns as they were given, one sample a row, by their roles; None for what is not there."""

    states: Any = None
    next_states: Any = None
    actions: Any = None
    next_actions: Any = None
    rewards: Any = None
    terminated: Any = None
    weights: Any = None
    durations: Any = None
    costs: Any = None
    terminal: Any = None
    terminal_costs: Any = None
    episodes: Any = None
    X: Any = None
    y: Any = None
    instruments: Any = None
    controls: Any = None
    groups: Any = None


def takes_data(method: Method) -> Method:
    """Mark a method (self, data, more) whose callers give what they give to `fit`, and perhaps more."""
    return _marked(method, "data")


def takes_inputs(method: Method) -> Method:
    """Mark a method (self, data, more) whose callers give what f depends on, and perhaps more."""
    return _marked(method, "inputs")


def takes_context(method: Method) -> Method:
    """Mark a method (self, data, more) whose callers give what the witness depends on, and perhaps more."""
    return _marked(method, "context")


def _marked(method: Method, what: str) -> Method:
    method.caller_gives = what  # type: ignore[attr-defined]
    return method


def adopt(estimator: Any) -> None:
    """Give the methods of an estimator that are marked the signature that its own `fit` and its task call for."""
    if "fit" not in vars(estimator):
        return
    fit = [each for each in inspect.signature(estimator.fit).parameters.values() if each.name != "self"]
    for name in dir(estimator):
        method = inspect.getattr_static(estimator, name)
        what = getattr(method, "caller_gives", None)
        if what is not None:
            taken = fit if what == "data" else _parameters(fit, estimator.task, what)
            setattr(estimator, name, _with_signature(getattr(method, "plain", method), taken))


def _parameters(fit: Sequence[inspect.Parameter], task: Task, what: str) -> list[inspect.Parameter]:
    """Those of `fit` that f, or the witness, depends on, in the order of the task."""
    by_name = {each.name: each for each in fit}
    names = task.inputs if what == "inputs" else task.context
    first, *others = (by_name[name].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names)
    return [first.replace(default=inspect.Parameter.empty), *others]


def _with_signature(method: Method, taken: Sequence[inspect.Parameter]) -> Method:
    """The method, called with these parameters and its own further ones."""
    more = list(inspect.signature(method).parameters.values())[2:]
    first = [each for each in taken if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    keyword = [each for each in taken if each.kind is inspect.Parameter.KEYWORD_ONLY]
    # What is keyword-only in `fit` stands after a method's own further parameters, which may be given by their place.
    more = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in more] if keyword else more
    signature = inspect.Signature([_SELF, *first, *more, *keyword], return_annotation=_returned(method))
    names = {each.name for each in taken}

    @functools.wraps(method)
    def called(self: Any, *arguments: Any, **options: Any) -> Any:
        if len(arguments) == 1 and not options and isinstance(arguments[0], Data):
            return method(self, arguments[0])
        bound = signature.bind(self, *arguments, **options)
        bound.apply_defaults()
        data = {name: value for name, value in bound.arguments.items() if name in names}
        rest = {name: value for name, value in bound.arguments.items() if name not in names and name != "self"}
        return method(self, Data(**data), **rest)

    called.__signature__ = signature  # type: ignore[attr-defined]
    called.plain = method  # type: ignore[attr-defined]
    return called


_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _returned(method: Method) -> Any:
    return inspect.signature(method).return_annotation
