"""Policies as they come: classifiers, agents of other libraries, functions, tables; all of them become `Choices`.

A policy that can be asked about any states is a `PolicyForm`. One that is known at the rows of a log alone, as arrays
or as names of columns, is a `RowPolicy`: what it does at states, and at next states where there are such.
"""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from dualembed import checks
from dualembed.data.columns import select_columns
from dualembed.data.frames import Frame, columns_of, levels_of, names_of, select
from dualembed.data.gaussian_policy import GaussianPolicy
from dualembed.data.probabilities import action_numbers, check_distributions, numbers

FORMS = (
    "a function of states, an object with predict_proba or predict, a GaussianPolicy, a dictionary from states to "
    "probabilities, names of columns, or a pair of tables: what it does at states, and at next states"
)


class Choices(NamedTuple):
    """What a policy does at n states: one of J actions each, with these probabilities.

    `labels` are the actions where all rows have the same; they are `numbered` where nothing but their places is known.
    Otherwise `actions` holds each row's own.
    """

    shares: np.ndarray  # (n, J)
    labels: tuple[Any, ...] | None = None
    actions: np.ndarray | None = None  # (n, J) or (n, J, a)
    numbered: bool = False


class PolicyFailureError(checks.InputError):
    """A policy that raises an error of its own when it is asked."""


class PolicyForm(ABC):
    """A policy that can be asked about any states."""

    def at(self, states: Any) -> Choices:
        """What it does at states, as they are given to a fit."""
        try:
            return self._at(states)
        except checks.InputError:
            raise
        except Exception as error:  # a policy may fail in any way
            raise PolicyFailureError(
                f"the policy failed for {count_states(states)} states ({reason(error)}); give one that answers for as "
                "many as it is asked about"
            ) from error

    @abstractmethod
    def _at(self, states: Any) -> Choices:
        """What it does at states, whatever it may raise."""


@final
class FunctionForm(PolicyForm):
    """A function from states to probabilities (n, A), or to actions (n,) or (n, a)."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def _at(self, states: Any) -> Choices:
        return choices_of(self.function(states), count_states(states))


@final
class ClassifierForm(PolicyForm):
    """Whatever has `predict_proba`, as scikit-learn's classifiers have; `classes_` say which column is which action."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def _at(self, states: Any) -> Choices:
        named = hasattr(self.classifier, "feature_names_in_") and names_of(states) is not None
        table = states if named else _rows(states)
        shares = numbers("what the policy's predict_proba gives", self.classifier.predict_proba(table))
        classes = getattr(self.classifier, "classes_", None)
        if classes is None:
            return choices_of(shares, count_states(states))
        if shares.ndim != 2 or shares.shape[1] != len(classes):
            raise checks.InputError(
                f"the policy's predict_proba must give a column for each of its {len(classes)} classes, but gave shape "
                f"{shares.shape}; give a classifier of one label"
            )
        check_distributions(shares, "the policy")
        return Choices(shares, tuple(levels_of(np.asarray(classes)).tolist()))


@final
class AgentForm(PolicyForm):
    """Whatever has `predict` alone: agents of d3rlpy and Stable-Baselines3, regressions, classifiers without odds.

    An agent that can be told to play without chance is; a pair of actions and a memory is taken for its actions.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        try:
            known = set(inspect.signature(agent.predict).parameters)
        except (TypeError, ValueError):
            known = set()
        self.options = {"deterministic": True} if "deterministic" in known else {}
        self.named = hasattr(agent, "feature_names_in_")

    def _at(self, states: Any) -> Choices:
        table = states if self.named and names_of(states) is not None else _rows(states)
        given = self.agent.predict(table, **self.options)
        given = given[0] if isinstance(given, tuple) and len(given) == 2 else given
        found = np.asarray(given)
        if found.ndim == 2 and found.shape[1] == 1:
            found = found[:, 0]
        if found.ndim not in (1, 2) or len(found) != count_states(states):
            raise checks.InputError(
                f"the policy's predict must give an action for each of {count_states(states)} states, but gave shape "
                f"{found.shape}"
            )
        return Choices(np.ones((len(found), 1)), actions=found[:, None])


@final
class GaussianForm(PolicyForm):
    """A policy with normal actions, by a few of them with weights."""

    def __init__(self, policy: GaussianPolicy) -> None:
        self.policy = policy

    def _at(self, states: Any) -> Choices:
        actions, shares = self.policy.actions(states)
        return Choices(shares, actions=actions)


@final
class LookupForm(PolicyForm):
    """A dictionary from each state, a number or a label, or a tuple of several, to probabilities or to an action."""

    def __init__(self, known: Mapping[Any, Any]) -> None:
        if not known:
            raise checks.InputError("a dictionary as a policy must have an entry for each state, but this one is empty")
        self.known = {_key(state): what for state, what in known.items()}

    def _at(self, states: Any) -> Choices:
        columns = columns_of(states, "states")[1]
        keys = [_key(row) for row in zip(*(levels_of(column).tolist() for column in columns), strict=True)]
        absent = next((key for key in keys if key not in self.known), None)
        if absent is not None:
            state = absent[0] if len(absent) == 1 else absent
            raise checks.InputError(
                f"the policy has no entry for the state {state!r}{checks.nearest(str(state), map(_text, self.known))}; "
                "give what it does in every state of the log, next states included"
            )
        found = [self.known[key] for key in keys]
        if all(isinstance(each, Mapping) for each in found):
            labels = tuple(dict.fromkeys(label for each in found for label in each))
            return labelled(np.array([[each.get(label, 0.0) for label in labels] for each in found]), labels)
        return choices_of(np.array(found), len(keys))


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Whatever asks a policy of that name, which is told if it fails."""
    try:
        yield
    except PolicyFailureError as error:
        raise PolicyFailureError(str(error).replace("the policy", f"the policy {name!r}", 1)) from error.__cause__


def reason(error: Exception) -> str:
    """The kind of an error and the first line of what it says."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


class RowPolicy(NamedTuple):
    """What a policy does at the rows of a log: tables or columns for states, and for next states where there are some.

    Each is an array (n, A) of probabilities, an array (n,) of actions, or a frame with a column for each action.
    """

    states: Any
    next_states: Any = None


def form_of(policy: Any) -> PolicyForm | RowPolicy | None:
    """The policy as one that can be asked, or as what it does at rows; None of names of columns and of None.

    Raises
    ------
    InputError
        If it is nothing that is known as a policy.
    """
    if policy is None or is_names(policy):
        return None
    if isinstance(policy, PolicyForm | RowPolicy):
        return policy
    if isinstance(policy, GaussianPolicy):
        return GaussianForm(policy)
    if inspect.isclass(policy):
        raise checks.InputError(f"policy must be {FORMS}, not the class {policy.__name__}; give an instance of it")
    if hasattr(policy, "predict_proba"):
        return ClassifierForm(policy)
    if hasattr(policy, "predict"):
        return AgentForm(policy)
    if callable(policy):
        return FunctionForm(policy)
    if isinstance(policy, Mapping):
        return LookupForm(policy)
    if isinstance(policy, tuple) and len(policy) == 2:
        return RowPolicy(*policy)
    if not np.isscalar(policy) and (names_of(policy) is not None or isinstance(policy, np.ndarray)):
        return RowPolicy(policy)
    raise checks.InputError(f"policy must be {FORMS}, not {policy!r}")


def is_names(policy: Any) -> bool:
    """Whether a policy is given by names of columns."""
    if isinstance(policy, str):
        return True
    return isinstance(policy, list) and bool(policy) and all(isinstance(each, str) for each in policy)


def at_positions(form: Any, source: Any) -> Any:
    """A policy by tables (n, A, L), as OBP's action_dist is, at the position of each row; any other as it is."""
    if not isinstance(form, RowPolicy) or np.ndim(form.states) != 3 or np.shape(form.states)[2] == 1:
        return form
    given = source.get("position") if isinstance(source, Mapping) else None
    table = np.asarray(form.states)
    if given is None:
        raise checks.InputError(
            f"the policy has probabilities at {table.shape[2]} positions, but the log does not say which was filled; "
            "give position with it, a number from 0 for each row, or the table of one position, (n, actions)"
        )
    _check_rows(table, len(given))
    own = action_numbers(given, table.shape[2], len(table), name="position")
    return RowPolicy(table[np.arange(len(table)), :, own])


def named_rows(policy: Any, source: Any, *, follows: bool) -> RowPolicy:
    """A policy by names of columns of a frame or a dictionary: "p_*", "p_left,p_right", or a list of names.

    One column holds actions, or an array of probabilities; several hold the probability of an action each. What the
    policy does at next states is in columns of the same names after next_; where it `follows` from the next row, or
    there are no next states, none are needed.
    """
    names = [str(name) for name in source] if isinstance(source, Mapping) else Frame.of(source).names or []
    spec = policy if isinstance(policy, str) else ",".join(f'"{each}"' for each in policy)
    chosen = select_columns(names, spec, "policy")
    after = [f"next_{name}" for name in chosen]
    if any(name in names for name in after):
        absent = [name for name in after if name not in names]
        if absent:
            raise checks.InputError(f"the policy's column {absent[0]!r} is not there, but others of its kind are")
        return RowPolicy(_part(source, chosen), _part(source, after))
    if not follows:
        raise checks.InputError(
            f"the columns {checks.some(chosen)} say what the policy does at states, but not at next states; give "
            f"{checks.some(after)} too, or leave next states out where they are those of the episode's next row"
        )
    return RowPolicy(_part(source, chosen))


def _part(source: Any, names: Sequence[str]) -> Any:
    """A column, or columns side by side, whose names say which action they are of."""
    if len(names) == 1:
        return np.asarray(source[names[0]] if isinstance(source, Mapping) else select(source, names[0]))
    columns = [source[name] if isinstance(source, Mapping) else select(source, name) for name in names]
    stem = _stem(names)
    return {name.removeprefix(stem): np.asarray(column) for name, column in zip(names, columns, strict=True)}


def _stem(names: Sequence[str]) -> str:
    """What all names begin with, up to an underscore or the like: the rest are actions."""
    first, last = min(names), max(names)
    same = next((place for place, letter in enumerate(first) if place >= len(last) or letter != last[place]), 0)
    head = first[:same]
    cut = max((head.rfind(mark) for mark in "_-. "), default=-1)
    return head[: cut + 1]


def choices_at(table: Any, rows: int, levels: Sequence[Any] = ()) -> Choices:
    """The choices that one table of a `RowPolicy` holds; `levels` are the known actions, by which columns are named.

    Columns whose names are no actions are numbered from 0.
    """
    names = names_of(table)
    if names is None or (len(names) == 1 and not isinstance(table, Mapping)):
        return choices_of(np.asarray(table), rows)
    columns = columns_of(table, "the policy")[1]
    named = zip(names, columns, strict=True)
    shares = np.stack([numbers(f"the policy's column {name}", column) for name, column in named], axis=1)
    _check_rows(shares, rows)
    known = {str(level): level for level in levels}
    if all(name in known for name in names):
        return labelled(shares, tuple(known[name] for name in names))
    if not known and all(name.isdecimal() for name in names):
        return labelled(shares, tuple(map(int, names)))
    if any(name in known for name in names) or any(isinstance(level, str) for level in levels):
        strange = next(name for name in names if name not in known)
        raise checks.InputError(
            f"the policy has a column of the action {strange!r}, but the log's actions are {checks.some(known)}"
            f"{checks.nearest(strange, known)}"
        )
    return choices_of(shares, rows)


def labelled(shares: np.ndarray, labels: tuple[Any, ...]) -> Choices:
    """Choices among actions of these labels."""
    return Choices(check_distributions(numbers("the policy's table", shares), "the policy"), labels)


def choices_of(given: Any, rows: int) -> Choices:
    """Choices from probabilities (n, A) of actions numbered from 0, or from actions (n,) or (n, a).

    A table whose rows do not look like probabilities holds actions of several numbers, and one of a single position
    may have an axis for it, (n, A, 1).
    """
    found = np.asarray(given)
    found = found[:, :, 0] if found.ndim == 3 and found.shape[2] == 1 else found
    if found.ndim not in (1, 2):
        raise checks.InputError(
            "policy must give an action, or probabilities of all, for each state, (n,) or (n, actions), but gave "
            f"shape {found.shape}"
        )
    _check_rows(found, rows)
    if found.ndim == 1 or found.shape[1] == 1:
        return Choices(np.ones((rows, 1)), actions=found.reshape(rows, 1))
    return Choices(found, tuple(range(found.shape[1])), numbered=True)


def _check_rows(found: np.ndarray, rows: int) -> None:
    if len(found) != rows:
        raise checks.InputError(
            f"the policy must say what it does in each of {rows} rows, but gave {len(found)}; a table or an array is "
            "one of the rows at hand, in their order"
        )


def count_states(states: Any) -> int:
    """How many states a table has."""
    return len(columns_of(states, "states")[1][0])


def _rows(states: Any) -> np.ndarray:
    """States as rows of an array, as those want them who know no frames."""
    if names_of(states) is None:
        found = np.asarray(states)
        return found[:, None] if found.ndim == 1 else found
    return np.stack(columns_of(states, "states")[1], axis=1)


def _key(state: Any) -> tuple[Any, ...]:
    row = state if isinstance(state, tuple) else (state,)
    return tuple(levels_of(np.array([*row, None], dtype=object)[:-1]).tolist())


def _text(key: tuple[Any, ...]) -> str:
    return str(key[0] if len(key) == 1 else key)


def settled(choices: Choices, levels: Sequence[Any], *, discrete: bool) -> Choices:
    """The choices among known actions: refused where they are of another number of actions, or of unknown ones.

    >>> settled(choices_of([[0.2, 0.8]], 1), (1, 2), discrete=True).labels
    (1, 2)
    """
    if choices.numbered and not discrete:  # actions of several numbers
        return Choices(np.ones((len(choices.shares), 1)), actions=choices.shares[:, None, :])
    if choices.numbered:
        if len(levels) != choices.shares.shape[1]:
            raise checks.InputError(
                f"the policy gives probabilities of {choices.shares.shape[1]} actions, but there are {len(levels)}: "
                f"{checks.some(map(str, levels))}; give one for each, 0 for those it does not take"
            )
        if any(isinstance(level, str) for level in levels):
            raise checks.InputError(
                "a policy that gives probabilities has actions numbered from 0, but the actions here are labels; "
                "number them, or let the policy give labels: a frame with a column for each, or a classifier"
            )
        return labelled(choices.shares, tuple(levels))
    if choices.labels is None or not discrete:
        return choices
    strange = _strange(choices, levels)
    if strange:
        raise never_shown(strange, levels)
    places = {label: place for place, label in enumerate(choices.labels)}
    shares = np.zeros((len(choices.shares), len(levels)))  # of all actions in their order, however they were given
    for place, level in enumerate(levels):
        if level in places:
            shares[:, place] = choices.shares[:, places[level]]
    return Choices(shares, tuple(levels))


def check_shown(choices: Choices, actions: Any, *, rows: Any = None) -> None:
    """Raise where a policy takes an action, in some of these rows (n,), that is not among the logged ones."""
    given = np.asarray(actions.to_numpy() if hasattr(actions, "to_numpy") else actions)
    own = levels_of(given[:, 0] if given.ndim == 2 else given)
    levels = sorted(set(own.tolist()), key=lambda level: (str(type(level)), level))
    if choices.numbered and any(isinstance(level, str) for level in levels):
        return  # whose labels are refused where they are needed
    if rows is not None:
        acts = None if choices.actions is None else choices.actions[rows]
        choices = choices._replace(shares=choices.shares[rows], actions=acts)
    strange = _strange(choices, levels)
    if strange:
        raise never_shown(strange, levels)


def _strange(choices: Choices, levels: Sequence[Any]) -> list[Any]:
    """The actions that a policy takes with some probability, and that are not among the known ones."""
    if choices.labels is None:
        own = levels_of(np.asarray(choices.actions)[:, 0]).tolist()
        return list(dict.fromkeys(each for each in own if each not in levels))
    taken = np.any(choices.shares > 0, axis=0)
    return [label for label, some in zip(choices.labels, taken, strict=True) if some and label not in levels]


def never_shown(strange: Sequence[Any], levels: Sequence[Any]) -> checks.InputError:
    """The refusal of actions that a policy takes and the log does not show."""
    known = [str(level) for level in levels]
    what = f"the action {strange[0]!r}" if len(strange) == 1 else f"the actions {checks.some(map(repr, strange))}"
    if any(isinstance(each, float) and 0 < each < 1 for each in strange):
        return checks.InputError(
            f"the policy takes {what}, but the log's actions are {checks.some(known)}; a policy by probabilities needs "
            "a column of them for each action, as in p_*"
        )
    hint = checks.nearest(str(strange[0]), known) if isinstance(strange[0], str) else ""
    return checks.InputError(
        f"the policy takes {what}, which the log never shows (there are {checks.some(known)}){hint}; give it no "
        "probability, or a log in which it was tried"
    )


def taken_shares(choices: Choices, actions: np.ndarray) -> np.ndarray:
    """The probability (n,) of the action that each row took, of settled choices among labels or single actions."""
    own = levels_of(np.asarray(actions))
    if choices.labels is None:
        chosen = levels_of(np.asarray(choices.actions)[:, 0])
        return np.array([float(a == b) for a, b in zip(chosen.tolist(), own.tolist(), strict=True)])
    places = {label: place for place, label in enumerate(choices.labels)}
    places_of = np.array([places.get(action, -1) for action in own.tolist()])
    return np.where(places_of >= 0, choices.shares[np.arange(len(own)), places_of], 0.0)
