"""What a policy is worth where episodes start, or where else it is known what the policy does; and means of f."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dualembed.answers import Answer, Question
from dualembed.answers.answer import Verdict
from dualembed.plot.surface import Surface


@dataclasses.dataclass(frozen=True)
class Worth:
    """The mean of a policy's value over places that `where` says in words: starts of so many `episodes`, or others.

    `answer` is the model's own, or None where it has no standard errors.
    """

    value: float
    answer: Answer | None
    where: str
    episodes: int | None

    @property
    def stderr(self) -> float | None:
        """The standard error, or None."""
        return None if self.answer is None else self.answer.stderr


def policy_value(model: Any, surface: Surface, tables: Mapping[str, Any]) -> Worth | None:
    """The policy's value from the first states of episodes on; None where there is no policy, or nothing is known.

    Of action values without a policy, whose actions are known at next states alone, it is the mean over these; unless
    the actions of the data are the policy's own, as next actions tell that are taken in the next row.
    """
    if hasattr(model, "actions_") and getattr(model, "policy", None) is None:
        return _of_actions(model, surface, tables)
    if getattr(model, "starts_", None) is None:
        return None
    points, shares = model.starts_ if isinstance(model.starts_, tuple) else (model.starts_[:, None], None)
    where = _starts(len(points))
    if model.uncertainty_ is not None:
        found = model.value()
        return Worth(found.value, found, where, len(points))
    values = np.asarray(surface.call(points.reshape(-1, points.shape[2]))).reshape(points.shape[:2])
    return Worth(float((values * (1.0 if shares is None else shares)).sum(axis=1).mean()), None, where, len(points))


def verdict_of(answer: Answer | None) -> Verdict | None:
    """How much an answer rests on; None where the model cannot know."""
    return None if answer is None else answer.verdict


def mean_answer(model: Any, points: np.ndarray) -> Answer | None:
    """The mean of f over coded points (n, d); None for fits that do not know what their answers rest on."""
    if model.uncertainty_ is None or getattr(model, "solved_", None) is None:
        return None
    found: Answer = model.ask(Question.mean("the mean over the rows of the data", points))
    return found


def _starts(episodes: int) -> str:
    return f"the starts of {episodes:,} episodes" if episodes != 1 else "the start of 1 episode"


def _of_actions(model: Any, surface: Surface, tables: Mapping[str, Any]) -> Worth | None:
    if "next_actions" not in tables:
        return None
    actions, following = (model.actions_.encode(tables[name]) for name in ("actions", "next_actions"))
    if "episodes" in tables:
        labels = np.unique(np.asarray(tables["episodes"]), return_inverse=True)[1]
        if _same_policy(actions, following, labels):
            first = np.unique(labels, return_index=True)[1]
            points = np.concatenate([model.coding_.encode(tables["states"]), actions], axis=1)[first]
            return _averaged(model, surface, points, _starts(len(first)), episodes=len(first))
    goes_on = np.asarray(tables.get("terminated", np.zeros(len(following)))) == 0
    points = np.concatenate([model.coding_.encode(tables["next_states"], renamed=True), following], axis=1)[goes_on]
    if not len(points):
        return None
    where = "the next states of the data (what it does at the starts of episodes is not known)"
    return _averaged(model, surface, points, where, episodes=None)


def _same_policy(actions: np.ndarray, following: np.ndarray, labels: np.ndarray) -> bool:
    """Whether every next action is the one that the next row of its episode takes."""
    order = np.argsort(labels, kind="stable")
    goes_on = labels[order][1:] == labels[order][:-1]
    return bool(goes_on.any()) and bool(np.array_equal(actions[order][1:][goes_on], following[order][:-1][goes_on]))


def _averaged(model: Any, surface: Surface, points: np.ndarray, where: str, *, episodes: int | None) -> Worth:
    """The mean over points; over starts of episodes, a sample themselves, the error is also that of the sample."""
    if model.uncertainty_ is None:
        return Worth(surface.average(points)[0], None, where, episodes)
    groups = None if episodes is None else np.full(len(points), -1)
    found = model.ask(Question.mean(f"the policy's value over {where}", points, groups=groups))
    return Worth(found.value, found, where, episodes)
