"""The kernel Bellman loss: the double sum over samples, over all pairs or over different ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import baselines, kernels, losses, problems, solvers, sources, spaces

ROWS = 60
DISCOUNT = 0.8
CUBIC = spaces.Basis(lambda s: jnp.concatenate([s**k for k in range(3)], axis=1))


def transitions(rows: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    state = rng.uniform(-1, 1, rows)
    return {
        "state": state,
        "reward": np.cos(2 * state),
        "next_state": 0.7 * state + 0.4 * rng.normal(size=rows),
        "weight": rng.uniform(0.5, 1.5, rows),
    }


def saddle(columns: dict[str, np.ndarray], dual: spaces.FunctionSpace, penalty: float | None = None) -> de.Saddle:
    return de.Saddle(
        problems.PolicyEvaluation(sources.Dataset(**columns), DISCOUNT), CUBIC, dual, primal_penalty=penalty
    )


def moments(columns: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """g (n, m) and t (n,) with moment = g θ - t."""
    now, after = (np.stack([columns[name] ** k for k in range(3)], axis=1) for name in ("state", "next_state"))
    return columns["weight"][:, None] * (now - DISCOUNT * after), columns["weight"] * columns["reward"]


@pytest.mark.parametrize("unbiased", [False, True])
def test_it_minimises_the_double_sum_over_samples(unbiased: bool) -> None:
    columns = transitions()
    kernel = kernels.Gaussian(0.5)
    result = de.solve(0, saddle(columns, spaces.RKHS(kernel), 0.25), baselines.KernelBellmanLoss(unbiased=unbiased))
    gaps = columns["state"][:, None] - columns["state"]
    gram = np.exp(-(gaps**2) / (2 * 0.5**2))
    if unbiased:
        gram -= np.eye(ROWS)
    pairs = ROWS * (ROWS - 1) if unbiased else ROWS**2
    g, t = moments(columns)
    wanted = np.linalg.solve(g.T @ gram @ g / pairs + 0.25 * np.eye(3), g.T @ gram @ t / pairs)
    # A square root of the Gram matrix leaves out directions below rounding.
    np.testing.assert_allclose(result.primal.weights, wanted, rtol=1e-6)


def test_its_dual_is_the_witness_of_what_is_left() -> None:
    columns = transitions()
    result = de.solve(0, saddle(columns, spaces.RKHS(kernels.Gaussian(0.5)), 0.25), baselines.KernelBellmanLoss())
    g, t = moments(columns)
    left = g @ result.primal.weights - t
    xs = np.linspace(-1, 1, 9)
    gram = np.exp(-((xs[:, None] - columns["state"]) ** 2) / (2 * 0.5**2))
    np.testing.assert_allclose(result.dual(xs), gram @ left / ROWS, atol=1e-5)


def test_the_closed_form_under_a_heavy_dual_penalty_tends_to_it() -> None:
    heavy = 1e6
    columns = transitions()
    embedded = de.Saddle(
        problems.PolicyEvaluation(sources.Dataset(**columns), DISCOUNT),
        CUBIC,
        CUBIC,
        primal_penalty=0.25 / heavy,
        dual_penalty=heavy,
    )
    limit = de.solve(0, embedded, solvers.ClosedForm(folds=1))
    found = de.solve(0, saddle(columns, CUBIC, 0.25), baselines.KernelBellmanLoss())
    np.testing.assert_allclose(found.primal.weights, limit.primal.weights, rtol=1e-4)


def test_with_indicators_it_weighs_states_by_their_squared_frequency() -> None:
    """State 0 three times as often as 1; one feature cannot fit both, and the squared weights decide between them."""
    data = sources.Dataset(state=[0, 0, 0, 1], reward=[1.0, 1.0, 1.0, 3.0], next_state=[0, 0, 0, 1])
    one = spaces.Basis(lambda s: jnp.ones_like(s))
    indicators = spaces.Basis(lambda s: jnp.concatenate([1 - s, s], axis=1))
    problem = de.Saddle(problems.PolicyEvaluation(data, 0.0), one, indicators)
    weighed = de.solve(0, problem, baselines.KernelBellmanLoss())
    np.testing.assert_allclose(weighed.primal.weights, [(9 * 1 + 1 * 3) / 10], rtol=1e-12)
    embedded = de.solve(0, problem, solvers.ClosedForm(folds=1))
    np.testing.assert_allclose(embedded.primal.weights, [(3 * 1 + 1 * 3) / 4], rtol=1e-10)


def test_leaving_out_the_diagonal_removes_the_bias_that_noise_causes() -> None:
    """f(z) = θ z with E[z | x] = x: truth 1. Over all pairs E[k(x, x) Var(z | x)] / n pulls θ down."""
    line = spaces.Basis(lambda z: z)
    found: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, 40)
        data = sources.Dataset(x=x, z=x + rng.normal(size=40), y=x)
        bumps = spaces.RKHS(kernels.Gaussian(jnp.asarray([0.2, 10.0])))
        problem = de.Saddle(problems.Invariance(data), line, bumps)
        for unbiased, slopes in found.items():
            solver = baselines.KernelBellmanLoss(unbiased=unbiased)
            slopes.append(float(de.solve(0, problem, solver).primal([1.0])[0]))
    assert np.mean(found[False]) < 0.85
    assert abs(np.median(found[True]) - 1) < 0.1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: saddle(transitions(), spaces.Network()), "needs a linear space"),
        (lambda: saddle(transitions(rows=1), CUBIC), "there is only 1 row"),
        (
            lambda: de.Saddle(
                problems.PolicyEvaluation(sources.Dataset(**transitions()), DISCOUNT, losses.Huber(1.0)), CUBIC, CUBIC
            ),
            "Huber loss has no closed form",
        ),
    ],
)
def test_what_it_cannot_solve_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        de.solve(0, make(), baselines.KernelBellmanLoss(unbiased=True))
