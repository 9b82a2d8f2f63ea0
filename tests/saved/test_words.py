"""Every part that files may hold has a word of its own, which outlives its module."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import dualembed
from dualembed.checks import InputError
from dualembed.saving import allowed, models
from dualembed.saving.migrations import STEPS, WORDS_OF_0_1, migrate

# Importing these is to run or to need something, and no model holds anything of theirs.
ELSEWHERE = ("dualembed.cli", "dualembed.experiments", "dualembed.__main__")
# Classes, as "module:class", that no model ever holds.
NEVER_HELD = frozenset(
    {
        "dualembed.answers.anderson_rubin:_Curve",
        "dualembed.answers.iv_strength:Stage",
        "dualembed.answers.answer:Judgement",
        "dualembed.answers.subgroups:Subgroups",
        "dualembed.answers.summary:Findings",
        "dualembed.selection.gaussian_process:Fitting",
        "dualembed.selection.hypotheses:Smooth",
        "dualembed.selection.hypotheses:Weighed",
        "dualembed.tuning:HyperPrior",
        "dualembed.tuning:Hypotheses",
        "dualembed.answers.summary:Summary",
        "dualembed.estimators.moves:LongRun",
        "dualembed.answers.task:Setting",
        "dualembed.answers.task:Task",
        "dualembed.data.following:Following",
        "dualembed.data.lags:Lag",
        "dualembed.data.lags:Spans",
        "dualembed.data.table:Windows",
        "dualembed.data.frames:Frame",
        "dualembed.tuning:Search",
        "dualembed.data.roles:Role",
        "dualembed.data.shifted_rewards:Alignment",
        "dualembed.data.shifted_rewards:Steps",
        "dualembed.data.table:Prepared",
        "dualembed.data.table:Table",
        "dualembed.estimators.effects:Move",
        "dualembed.estimators.policy_values:Episodes",
        "dualembed.estimators.effects:Over",
        "dualembed.estimators.invariant:Samples",
        "dualembed.comparison.compared:Anew",
        "dualembed.comparison.compared:Asked",
        "dualembed.comparison.compared:_Candidates",
        "dualembed.comparison.compared:_Moments",
        "dualembed.estimators.weighting:Weighed",
        "dualembed.selection.kernels:BestRegression",
        "dualembed.spaces.nystrom:LandmarkValues",
        "dualembed.selection.evidence:Widening",
        "dualembed.linear.gmm:_Moments",
        "dualembed.estimators.linear_columns:LinearColumn",
        "dualembed.estimators.linear_columns:Slopes",
        "dualembed.selection.forms:Form",
        "dualembed.linear.serial:NeweyWest",
        "dualembed.linear.iv_covariance:ClusterJackknife",
        "dualembed.linear.iv_covariance:Clustered",
        "dualembed.linear.iv_covariance:Robust",
        "dualembed.linear.iv_covariance:Unadjusted",
        "dualembed.linear.iv_design:FactoredDesign",
        "dualembed.linear.iv_design:IVDesign",
        "dualembed.linear.iv_design:_Columns",
        "dualembed.linear.iv_rank:Dropped",
        "dualembed.linear.two_stage:IVFit",
        "dualembed.plot.drawn:Drawn",
        "dualembed.plot.first_stage:Stage",
        "dualembed.plot.surface:Dependence",
        "dualembed.report.html:Drawing",
        "dualembed.report.picture:Picture",
    }
)


def classes_with_fields() -> Iterator[type]:
    """All classes of dualembed whose objects can be described."""
    for module in pkgutil.walk_packages(dualembed.__path__, "dualembed."):
        if not module.name.startswith(ELSEWHERE):
            for found in vars(importlib.import_module(module.name)).values():
                if isinstance(found, type) and found.__module__ == module.name and has_fields(found):
                    yield found


def has_fields(kind: type) -> bool:
    """Whether there can be objects of the class, which are their fields."""
    named = dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    return named and not inspect.isabstract(kind)


def test_every_class_that_can_be_saved_has_a_word() -> None:
    places = {f"{kind.__module__}:{kind.__qualname__}" for kind in classes_with_fields()}
    lacking = sorted(places - allowed.WORD_OF.keys() - NEVER_HELD)
    assert lacking == [], "give each a word in saving/allowed.py, or list it above where no model holds it"


def test_no_word_is_used_twice() -> None:
    words = [
        f"{room}.{name}"
        for room, modules in allowed.PARTS.items()
        for names in modules.values()
        for name in names.split()
    ]
    assert [word for word, count in Counter(words).items() if count > 1] == []
    assert len(allowed.WORD_OF) == len(allowed.WORDS) == len(words)
    assert not allowed.GONE & allowed.WORDS.keys()
    assert allowed.RENAMED.keys() <= allowed.WORDS.keys()


@pytest.mark.parametrize("word", allowed.WORDS)
def test_a_word_leads_to_its_class_and_back(word: str) -> None:
    assert allowed.class_name(allowed.class_named(word)) == word


def test_every_name_of_0_1_has_its_word_still() -> None:
    assert len(WORDS_OF_0_1) == len(set(WORDS_OF_0_1.values())) == 184
    assert set(WORDS_OF_0_1.values()) <= allowed.WORDS.keys() | allowed.GONE


def test_a_word_stays_when_its_class_moves_and_is_renamed() -> None:
    moved = allowed.places({"kernels": {"elsewhere.kernels": "Gaussian"}}, {"kernels.Gaussian": "Normal"})
    assert moved == {"kernels.Gaussian": "dualembed.elsewhere.kernels:Normal"}


def test_places_are_no_words_any_more() -> None:
    for name in ("dualembed.kernels.stationary:Gaussian", "kernels.Kernel", "os:system", "dualembed.files:Path"):
        with pytest.raises(InputError, match=f"there is no part {name}"):
            allowed.class_named(name)


def test_there_is_a_step_from_every_older_format() -> None:
    assert list(STEPS) == list(range(1, models.FORMAT))


def test_a_description_of_format_1_gets_words_at_any_depth() -> None:
    def with_names(kernel: str, layer: str) -> Any:
        inner = {"class": kernel, "fields": {"class_": [{"tuple": [{"class": layer, "fields": {}}]}]}}
        return {"class": "IVRegressor", "parameters": {"primal": inner}, "fitted": {"x_": {"dict": [["class", inner]]}}}

    old = with_names("dualembed.kernels.stationary:Gaussian", "equinox.nn._linear:Linear")
    new = with_names("kernels.Gaussian", "equinox.nn._linear:Linear")
    assert migrate(old, 1) == new
    assert migrate(new, models.FORMAT) == new
