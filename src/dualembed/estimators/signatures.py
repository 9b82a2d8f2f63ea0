"""What callers give to `fit` and to the methods that take the same: one table, whatever form and names it came in.

Methods that take what `fit` takes, or what f depends on, are written once, as methods of a table, and get the signature
that each class needs.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dualembed import checks
from dualembed.answers.task import Task
from dualembed.data.frames import names_of
from dualembed.data.roles import DEPRECATED, PARAMETERS, REFUSED, ROLES, role_named
from dualembed.data.table import Table

Method = Callable[..., Any]


def takes_data(method: Method) -> Method:
    """Mark a method (self, table, more) whose callers give what they give to `fit`, and perhaps more."""
    return _marked(method, "data")


def takes_inputs(method: Method) -> Method:
    """Mark a method (self, table, more) whose callers give what f depends on, and perhaps more."""
    return _marked(method, "inputs")


def takes_context(method: Method) -> Method:
    """Mark a method (self, table, more) whose callers give what the witness depends on, and perhaps more."""
    return _marked(method, "context")


def _marked(method: Method, what: str) -> Method:
    method.caller_gives = what  # type: ignore[attr-defined]
    return method


def adopt(estimator: Any) -> None:
    """Let the constructor and `fit` of an estimator understand all forms and names, and sign its marked methods."""
    if "__init__" in vars(estimator):
        estimator.__init__ = _constructor(estimator.__init__)
    if "fit" not in vars(estimator):
        return
    fit = [each for each in inspect.signature(estimator.fit).parameters.values() if each.name != "self"]
    described = _parts(estimator.fit.__doc__ or "")[1]
    estimator.fit = _fit(estimator.fit, estimator)
    for name in dir(estimator):
        method = inspect.getattr_static(estimator, name)
        what = getattr(method, "caller_gives", None)
        if what is not None:
            taken = fit if what == "data" else _parameters(fit, estimator.task, what)
            signed = _with_signature(getattr(method, "plain", method), taken, estimator, whole=what == "data")
            signed.__doc__ = _described(signed, described)
            setattr(estimator, name, signed)


def _constructor(method: Method) -> Method:
    """The constructor, which knows parameters by the names that other libraries have for them, too."""
    known = inspect.signature(method).parameters

    @functools.wraps(method)
    def called(self: Any, *arguments: Any, **options: Any) -> None:
        for other, own in PARAMETERS.items():
            if other in options and own in known and other not in known:
                if own in options:
                    raise checks.InputError(f"{other} is another name of {own}; give one of them")
                options[own] = options.pop(other)
        method(self, *arguments, **options)

    return called


def _fit(method: Method, estimator: Any) -> Method:
    """`fit` as it is written, called with one whole table, too, or with a log."""
    call = _Call(inspect.signature(method), estimator, method.__name__, whole=True)

    @functools.wraps(method)
    def called(self: Any, *arguments: Any, **options: Any) -> Any:
        whole, given = call.understood(arguments, options)
        return method(self, **given) if whole is None else self._fit(whole)

    called.__signature__ = call.signature  # type: ignore[attr-defined]
    return called


def _parameters(fit: Sequence[inspect.Parameter], task: Task, what: str) -> list[inspect.Parameter]:
    """Those of `fit` that f, or the witness, depends on, in the order of the task."""
    by_name = {each.name: each for each in fit}
    names = task.inputs if what == "inputs" else task.context
    first, *others = (by_name[name].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names)
    return [first.replace(default=inspect.Parameter.empty), *others]


def _with_signature(method: Method, taken: Sequence[inspect.Parameter], estimator: Any, *, whole: bool) -> Method:
    """The method, called with these parameters and its own further ones."""
    more = list(inspect.signature(method).parameters.values())[2:]
    first = [each for each in taken if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    keyword = [each for each in taken if each.kind is inspect.Parameter.KEYWORD_ONLY]
    # What is keyword-only in `fit` stands after a method's own further parameters, which are then given by name, too.
    more = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in more] if keyword else more
    returned = inspect.signature(method).return_annotation
    signature = inspect.Signature([_SELF, *first, *more, *keyword], return_annotation=returned)
    call = _Call(signature, estimator, method.__name__, whole=whole)
    names = {each.name for each in taken}

    @functools.wraps(method)
    def called(self: Any, *arguments: Any, **options: Any) -> Any:
        table, given = call.understood(arguments, options)
        rest = {name: value for name, value in given.items() if name not in names}
        if table is None:
            table = Table.of(**{name: value for name, value in given.items() if name in names})
        return method(self, self._arranged(table) if "next_states" in names else table, **rest)

    called.__signature__ = call.signature  # type: ignore[attr-defined]
    called.plain = method  # type: ignore[attr-defined]
    return called


def _described(method: Method, described: Mapping[str, Sequence[str]]) -> str:
    """The method's docstring, with what `fit` says of the parameters that it takes, in the order of its signature."""
    before, own, after = _parts(method.__doc__ or "")
    if not own:
        return "\n".join(before)
    known = {**described, **own}
    lines = [line for name in inspect.signature(method).parameters for line in known.get(name, ())]
    return "\n".join([*before, "Parameters", "----------", *lines, *after])


def _parts(docstring: str) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """A docstring's lines before its section of parameters, those of each parameter, and those after."""
    lines = inspect.cleandoc(docstring).split("\n")
    if "Parameters" not in lines:
        return lines, {}, []
    begin = lines.index("Parameters")
    end = lines.index("", begin) if "" in lines[begin:] else len(lines)
    found: dict[str, list[str]] = {}
    for line in lines[begin + 2 : end]:
        name = next(reversed(found)) if line.startswith(" ") else line.split(" :")[0]
        found.setdefault(name, []).append(line)
    return lines[:begin], found, lines[end:]


class _Call:
    """How calls of a method are understood: by its signature, by other names of its roles, and by whole tables."""

    def __init__(self, signature: inspect.Signature, estimator: Any, method: str, *, whole: bool) -> None:
        self.signature = signature
        self.name, self.method = estimator.__name__, method
        self.task: Task | None = getattr(estimator, "task", None)
        self.whole = whole  # whether a frame of all columns, or a list of episodes, may stand in the place of all
        self.known = [name for name in signature.parameters if name != "self"]
        # The roles that must be given.
        without = [name for name in self.known if signature.parameters[name].default is inspect.Parameter.empty]
        roles = (self.task.needs, self.task.derives) if whole and self.task is not None else ((), ())
        self.needed = [name for name in self.known if name in (*without, *roles[0]) and name not in roles[1]]
        # What a role is where nothing is given, other than None.
        self.defaults = {
            name: each.default
            for name, each in signature.parameters.items()
            if name in ROLES and each.default not in (None, inspect.Parameter.empty)
        }
        # Roles that could be given by their place before they were keyword-only.
        self.former = [role for role in getattr(estimator, "_once_positional", ()) if role in self.known]

    def understood(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Table | None, dict[str, Any]]:
        """(the whole table, if the first argument is one, all other arguments by name)."""
        options = self._renamed(options)
        arguments, options = self._by_name(arguments, options)
        whole = Table.whole(arguments[0]) if len(arguments) == 1 else None
        if whole is None and len(arguments) == 1 and self.whole:
            whole = self._read(arguments[0], options)
        if whole is not None:
            given = {**whole.columns, **{name: value for name, value in options.items() if name in ROLES}}
            lacking = [name for name in self.needed[1:] if name not in given]
            if lacking:
                raise checks.InputError(
                    f"the data have no {lacking[0]}, which {self.name} needs; give {lacking[0]}=... besides"
                )
            known = {**self.defaults, **{role: column for role, column in given.items() if role in self.known}}
            rest = {name: value for name, value in options.items() if name not in ROLES}
            return dataclasses.replace(whole, columns=known), rest
        unknown = [name for name in options if name not in self.known]
        if unknown:
            hint = checks.nearest(unknown[0], self.known)
            raise TypeError(f"{self.name} got an unexpected keyword argument {unknown[0]!r}{hint}")
        if self.whole:
            self._check_given(arguments, options)
        bound = self.signature.bind(None, *arguments, **options)
        bound.apply_defaults()
        return None, {name: value for name, value in bound.arguments.items() if name != "self"}

    def _read(self, source: Any, options: Mapping[str, Any]) -> Table | None:
        """The table of the only argument, where it stands for all: a frame with usual names, or episodes.

        A frame that all else is given besides holds the first argument alone.
        """
        if all(name in options for name in self.needed[1:]) and any(name in ROLES for name in options):
            return None
        from dualembed.data.whole import listed_table, named_table

        roles = [ROLES[name] for name in self.known if name in ROLES]
        return named_table(source, roles) or listed_table(source, roles)

    def _check_given(self, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Raise where what must be given is not, with an example."""
        given = {*self.known[: len(arguments)], *options}
        missing = [name for name in self.needed if name not in given]
        if not missing:
            return
        placed = list(itertools.takewhile(lambda name: name in self.needed, self.known))
        how = ", ".join(name if name in placed else f"{name}=..." for name in self.needed)
        if self.task is not None and self.task.derives:
            how = f"{how}, episodes=..."
        hint = ""
        if len(arguments) == 1 and (names := names_of(arguments[0])) is not None:
            words = " and ".join(repr(ROLES[name].word) for name in self.needed)
            hint = f", or a table whose columns are called {words} (there are {checks.some(names)})"
        raise checks.InputError(
            f"{self.name} needs {' and '.join(missing)}{' too' if given else ''}; give all of it, as in "
            f"{self.method}({how}){hint}"
        )

    def _renamed(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options under the names of roles."""
        found = dict(options)
        for name in options:
            if name in self.known:
                continue
            if name in REFUSED:
                raise checks.InputError(f"{self.name} takes no {name}: {REFUSED[name]}")
            role = role_named(name)
            if role not in self.known:
                continue  # which Python refuses
            if role in options:
                raise checks.InputError(f"{name} is another name of {role}; give one of them")
            if name in DEPRECATED:
                warnings.warn(f"{name}= is deprecated; use {role}=", FutureWarning, stacklevel=4)
            found[role] = found.pop(name)
        return found

    def _by_name(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, and by name those that are keyword-only now but were given by their place."""
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
        most = sum(each.kind in kinds for each in self.signature.parameters.values()) - 1
        late = arguments[most:]
        names = self.former[: len(late)]
        if not late or len(late) > len(self.former) or any(name in options for name in names):
            return arguments, options  # which Python refuses, where they are too many
        listed = ", ".join(f"{name}=" for name in names)
        warnings.warn(f"{listed} by place is deprecated; give it by name", FutureWarning, stacklevel=4)
        return arguments[:most], {**options, **dict(zip(names, late, strict=True))}


_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
