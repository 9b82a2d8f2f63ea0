"""Saved models: the same answers bit for bit, functions by name only, and no code run on load."""

from __future__ import annotations

import dataclasses
import functools
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas
import pytest
from tests.saved.make import curve, value_and_error

from dualembed import estimators, kernels, samplers, spaces
from dualembed.checks import InputError
from dualembed.data.conditions import condition
from dualembed.saving import MissingFunction, describe, load, save

LINES = {"primal": "linear", "dual": "linear"}
RNG = np.random.default_rng(0)
STATES = RNG.normal(size=(80, 2))
FOLLOWING = 0.5 * STATES + RNG.normal(size=(80, 2))
REWARDS = np.sin(STATES[:, 0])
ACTIONS = RNG.integers(2, size=80)


def always(states: Any) -> np.ndarray:
    """A policy with a name."""
    return np.ones(len(states), dtype=int)


def again(model: Any, folder: Path, **options: Any) -> Any:
    """The model after a round trip."""
    save(model, folder / "model.dualembed")
    return load(folder / "model.dualembed", **options)


@pytest.fixture(scope="module")
def evaluator() -> estimators.PolicyEvaluator:
    """A model with standard errors, starts of episodes and sums that go on."""
    return curve()


def test_answers_are_the_same_bits(evaluator: Any, tmp_path: Path) -> None:
    loaded = again(evaluator, tmp_path)
    for ask in (
        lambda model: model.predict(STATES, return_std=True),
        lambda model: model.interval(STATES, level=0.9),
        lambda model: model.witness(STATES, return_std=True),
        lambda model: value_and_error(model.value()),
        lambda model: dataclasses.astuple(model.bellman_error(STATES, REWARDS, FOLLOWING)),
    ):
        np.testing.assert_array_equal(ask(loaded), ask(evaluator))
    assert str(loaded.diagnostics_) == str(evaluator.diagnostics_)
    assert str(loaded.selection_) == str(evaluator.selection_)


def test_partial_fit_goes_on_after_load(tmp_path: Path) -> None:
    stayed = curve()
    loaded = again(stayed, tmp_path)
    for model in (stayed, loaded):
        model.partial_fit(STATES, REWARDS, FOLLOWING)
    np.testing.assert_array_equal(
        loaded.predict(STATES, return_std=True), stayed.predict(STATES, return_std=True), strict=True
    )


def fitted_estimators() -> dict[str, Any]:
    """Each of the estimators, fitted to straight lines, with the arguments of predict."""
    marks = (STATES[:, 0] > 1).astype(float)
    inside = condition("x0 >= 1", ["x0", "x1"])
    noise = samplers.AdditiveNoise(0.1)
    return {
        "PolicyEvaluator": lambda: estimators.PolicyEvaluator(0.9, **LINES).fit(STATES, REWARDS, FOLLOWING),
        "IVRegressor": lambda: estimators.IVRegressor(**LINES).fit(STATES, REWARDS, instruments=FOLLOWING),
        "ActionValueEvaluator": lambda: estimators.ActionValueEvaluator(0.9, always, **LINES).fit(
            STATES, ACTIONS, REWARDS, FOLLOWING
        ),
        "HittingTimeRegressor": lambda: estimators.HittingTimeRegressor(inside, **LINES).fit(STATES, FOLLOWING),
        "CommittorRegressor": lambda: estimators.CommittorRegressor(
            condition("x0 < -0.5", ["x0", "x1"]), inside, **LINES
        ).fit(STATES, FOLLOWING),
        "StationaryAverage": lambda: estimators.StationaryAverage(inside, **LINES).fit(STATES, FOLLOWING),
        "LinearControl": lambda: estimators.LinearControl(**LINES).fit(STATES, marks, FOLLOWING, marks),
        "InvariantRegressor": lambda: estimators.InvariantRegressor(noise, **LINES).fit(STATES, REWARDS),
        "InvariantClassifier": lambda: estimators.InvariantClassifier(noise, **LINES).fit(
            STATES, np.where(REWARDS > 0, "up", "down")
        ),
    }


@pytest.mark.filterwarnings("ignore:the instruments are weak")
@pytest.mark.parametrize("name", estimators.__all__)
def test_every_estimator_can_be_saved(name: str, tmp_path: Path) -> None:
    model = fitted_estimators()[name]()
    loaded = again(model, tmp_path)
    arguments = (STATES, ACTIONS) if name == "ActionValueEvaluator" else (STATES,)
    np.testing.assert_array_equal(loaded.predict(*arguments), model.predict(*arguments), strict=True)
    assert type(loaded) is type(model)
    assert loaded.get_params().keys() == model.get_params().keys()


def test_an_estimator_before_its_fit_keeps_its_parameters(tmp_path: Path) -> None:
    loaded = again(estimators.PolicyEvaluator(0.5, primal=spaces.RKHS(kernels.Gaussian(0.3))), tmp_path)
    assert loaded.discount == 0.5
    assert loaded.primal == spaces.RKHS(kernels.Gaussian(0.3))
    assert not hasattr(loaded, "function_")


def test_names_of_columns_are_kept(tmp_path: Path) -> None:
    table = pandas.DataFrame(STATES, columns=["place", "größe"])
    model = again(estimators.IVRegressor(**LINES).fit(table, REWARDS), tmp_path)
    assert model.feature_names_in_.tolist() == ["place", "größe"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"place": "other"}))


def test_equal_models_are_equal_files_and_stay_so(evaluator: Any, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("first", "second", "third.any")]
    save(evaluator, paths[0])
    save(curve(), paths[1])
    save(load(paths[0]), paths[2])
    assert len({path.read_bytes() for path in paths}) == 1


def test_a_named_function_is_kept_by_name_and_given_again(tmp_path: Path) -> None:
    model = fitted_estimators()["ActionValueEvaluator"]()
    loaded = again(model, tmp_path)
    name = f"{__name__}:always"
    assert loaded.policy == MissingFunction(name, "policy")
    with pytest.raises(InputError, match=r"the function .*:always is not kept.*set_params\(policy=\.\.\.\)"):
        loaded.value(STATES)
    for whole in (loaded.set_params(policy=always), again(model, tmp_path, functions={name: always})):
        assert whole.value(STATES) == model.value(STATES)


def test_a_nameless_function_is_given_again_by_its_place(tmp_path: Path) -> None:
    model = estimators.InvariantRegressor(lambda key, x: x + jax.random.normal(key, x.shape), **LINES)
    model.fit(STATES, REWARDS)
    with pytest.raises(InputError, match=r"load\(path, functions=\{'sampler': \.\.\.\}\)") as caught:
        again(model, tmp_path).predict(STATES)
    assert "set_params" not in str(caught.value)  # which would not reach the sampler that the fit has kept
    whole = again(model, tmp_path, functions={"sampler": model.sampler})
    np.testing.assert_array_equal(whole.predict(STATES), model.predict(STATES))
    assert describe(tmp_path / "model.dualembed")["functions"] == ["sampler"]
    with pytest.raises(InputError, match="no function policy; those that it had are: sampler"):
        again(model, tmp_path, functions={"policy": always})


def test_a_function_is_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def policy(states: Any) -> Any:
        return states

    policy.__module__, policy.__qualname__ = "trap", "policy"
    loaded = again(estimators.ActionValueEvaluator(policy=policy), tmp_path)
    assert loaded.policy.name == "trap:policy"
    assert "trap" not in sys.modules


def test_a_basis_of_ones_own_predicts_once_given_again(tmp_path: Path) -> None:
    def squares(x: Any) -> Any:
        return x**2

    model = estimators.IVRegressor(primal=spaces.Basis(squares), dual="linear").fit(STATES, REWARDS)
    with pytest.raises(InputError, match="give it again"):
        again(model, tmp_path).predict(STATES)
    (name,) = describe(tmp_path / "model.dualembed")["functions"]
    whole = load(tmp_path / "model.dualembed", functions={name: squares})
    np.testing.assert_array_equal(whole.predict(STATES), model.predict(STATES))


def test_nothing_of_a_class_is_run_on_load(evaluator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(evaluator, tmp_path / "model")
    expected = evaluator.predict(STATES)

    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("code of the class was run")

    with monkeypatch.context() as patch:
        for kind in (estimators.PolicyEvaluator, type(evaluator.coding_), kernels.Gaussian):
            patch.setattr(kind, "__init__", functools.wraps(kind.__init__)(lambda *_, **__: run()))
        patch.setattr(spaces.Nystrom, "__check_init__", run)
        patch.setattr(pickle, "loads", run)
        loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(STATES), expected)


class OwnKernel(kernels.Kernel):
    """A kernel that files cannot bring along."""

    def gram(self, x: Any, z: Any) -> Any:
        return x @ z.T

    def diagonal(self, x: Any) -> Any:
        return (x**2).sum(axis=1)


class OwnRegressor(estimators.IVRegressor):
    """An estimator that files cannot bring along."""


def test_what_cannot_be_kept_is_refused_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_text("old")
    for model, words in (
        (estimators.IVRegressor(primal=spaces.RKHS(OwnKernel())), r"primal\.kernel is a .*OwnKernel.* cannot keep"),
        (estimators.IVRegressor(random_state=np.random.RandomState(0)), "random_state is a .*RandomState"),
        (estimators.IVRegressor(categorical_features=np.array(["2020-01-01"], "M8[D]")), "an array of datetime64"),
        (OwnRegressor(), "not for a OwnRegressor"),
        (estimators.IVRegressor, "not for the class IVRegressor"),
        ("a model", "not for a str"),
    ):
        with pytest.raises(InputError, match=words):
            save(model, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_that_holds_itself_is_refused(tmp_path: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InputError, match="holds itself"):
        save(estimators.IVRegressor(categorical_features=endless), tmp_path / "model")


def test_arrays_of_a_loaded_model_cannot_be_written_to(evaluator: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        again(evaluator, tmp_path).starts_.parts[0][1].points[0] = 3.0


def test_a_description_says_what_is_in_the_file(evaluator: Any, tmp_path: Path) -> None:
    save(evaluator, tmp_path / "model")
    found = describe(tmp_path / "model")
    assert (found["class"], found["rows"], found["columns"], found["format"]) == ("PolicyEvaluator", 120, None, 3)
    assert found["parameters"]["discount"] == 0.9
    assert found["parameters"]["primal"] == "Nystrom(kernel=Gaussian(bandwidth=2.0), size=12, landmarks=Uniform())"
    assert "function_" in found["fitted"]
    assert found["bytes"] == (tmp_path / "model").stat().st_size


def test_a_description_has_words_for_every_parameter(tmp_path: Path) -> None:
    for given, shown in (
        (spaces.Network(width=4), "Network(build=None, width=4, depth=2, optimiser=default)"),
        (spaces.Basis(always), f"Basis(function=function {__name__}:always)"),
        (spaces.Table([[0.0, 1.0]]), "Table(points=array of shape (1, 2))"),
        (np.float32(0.5), 0.5),
        ((1, {"a": float("inf")}), [1, {"a": "inf"}]),
        (np.array(["a"]), "array of text"),
    ):
        save(estimators.IVRegressor(primal=given), tmp_path / "model")
        found = describe(tmp_path / "model")
        assert found["parameters"]["primal"] == shown
        json.dumps(found, allow_nan=False)
