"""The stochastic rivals go where their theory says, be it the right place or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import baselines, losses, problems, schedules, solvers, sources, spaces
from dualembed.experiments.garnet import Lookup

DISCOUNT = 0.8
TRANSITIONS = np.array([[[2, 0, 2], [1, 2, 1]], [[4, 0, 0], [1, 1, 2]], [[3, 1, 0], [0, 1, 3]]]) / 4
TARGET = np.array([[0.7, 0.3], [0.5, 0.5], [0.3, 0.7]])
REWARD = np.array([[0.0, 2.0], [-1.0, 3.0], [-1.0, 1.0]])
TABLE = np.array([[0.6, 1.1], [-0.2, -1.2], [-1.5, 0.5]])
CHAIN = np.einsum("sa,sat->st", TARGET, TRANSITIONS)
MOVED = TABLE - DISCOUNT * CHAIN @ TABLE
MEAN_REWARD = np.sum(TARGET * REWARD, axis=1)
CONSTANT = schedules.Constant(0.3)


def exact_pairs() -> dict[str, np.ndarray]:
    """From each state every pair of transitions of the uniform policy, as often as its probability says."""
    rows = []
    for state in range(3):
        ways = [way for way in np.ndindex(2, 3) for _ in range(round(4 * TRANSITIONS[state][way]))]
        for action, after in ways:
            for other, second in ways:
                first = REWARD[state, action], after, 2 * TARGET[state, action]
                rows.append((state, *first, REWARD[state, other], second, 2 * TARGET[state, other]))
    names = ("reward", "next_state", "weight")
    return dict(zip(("state", *names, *(f"second_{name}" for name in names)), np.array(rows).T, strict=True))


PAIRS = exact_pairs()
ROWS = len(PAIRS["state"])  # 3 · 8², every one once


def saddle(columns: dict[str, np.ndarray] = PAIRS, dual: spaces.FunctionSpace | None = None) -> de.Saddle:
    space = spaces.Basis(Lookup(TABLE))
    problem = problems.PolicyEvaluation(sources.Dataset(**columns), DISCOUNT)
    return de.Saddle(problem, space, space if dual is None else dual)


def orthogonal() -> np.ndarray:
    """θ with E[φ(s) (V(s) - r - γ V(s'))] = 0, states equally likely."""
    return np.linalg.solve(TABLE.T @ MOVED, TABLE.T @ MEAN_REWARD)


def least_bellman_error() -> np.ndarray:
    """θ that minimises the mean of E[V(s) - r - γ V(s') | s]²."""
    return np.linalg.lstsq(MOVED, MEAN_REWARD, rcond=None)[0]


def least_sample_error() -> np.ndarray:
    """θ that minimises the mean of (ρ (V(s) - r - γ V(s')))², each sample's own."""
    now, after = (TABLE[PAIRS[name].astype(int)] for name in ("state", "next_state"))
    g = PAIRS["weight"][:, None] * (now - DISCOUNT * after)
    return np.linalg.lstsq(g, PAIRS["weight"] * PAIRS["reward"], rcond=None)[0]


LIMITS: dict[str, tuple[Callable[..., Any], Callable[[], np.ndarray]]] = {
    "td0": (baselines.TD0, orthogonal),
    "tdc": (baselines.TDC, orthogonal),
    "gtd2": (baselines.GTD2, orthogonal),
    "residual-gradient": (baselines.ResidualGradient, least_sample_error),
    "double-sampling": (baselines.DoubleSampling, least_bellman_error),
}


@pytest.mark.parametrize("name", LIMITS)
def test_on_exact_batches_each_settles_at_its_own_solution(name: str) -> None:
    make, limit = LIMITS[name]
    with jax.enable_x64(True):
        result = de.solve(0, saddle(), make(10_000, ROWS, CONSTANT, CONSTANT))
    np.testing.assert_allclose(result.last.primal.weights, limit(), atol=1e-7)


def test_the_three_solutions_are_far_apart() -> None:
    limits = [orthogonal(), least_bellman_error(), least_sample_error()]
    gaps = [np.linalg.norm(limits[i] - limits[j]) for i in range(3) for j in range(i)]
    assert min(gaps) > 0.25


@pytest.mark.parametrize("name", LIMITS)
def test_single_samples_lead_to_the_same_solution(name: str) -> None:
    make, limit = LIMITS[name]
    step = schedules.OffsetSqrt(2.0, 10.0)
    result = de.solve(0, saddle(), make(40_000, 4, step, step))
    assert np.linalg.norm(result.primal.weights - limit()) < 0.03  # the three solutions are 0.25 apart and more


def test_double_sampling_descends_along_the_unbiased_gradient() -> None:
    """Full batches: θ <- θ - γ Gᵀ(Gθ - r)/3 step by step, G = Φ - γ P_π Φ; residual gradient's are others."""
    theta = np.zeros(2)
    for _ in range(5):
        theta = theta - 0.3 * MOVED.T @ (MOVED @ theta - MEAN_REWARD) / 3
    with jax.enable_x64(True):
        unbiased = de.solve(0, saddle(), baselines.DoubleSampling(5, ROWS, CONSTANT)).last.primal.weights
        biased = de.solve(0, saddle(), baselines.ResidualGradient(5, ROWS, CONSTANT)).last.primal.weights
    np.testing.assert_allclose(unbiased, theta, atol=1e-12)
    assert np.linalg.norm(np.asarray(biased) - theta) > 0.05


def test_td0_and_tdc_follow_their_published_updates() -> None:
    theta_td, theta_tdc, w = np.zeros(2), np.zeros(2), np.zeros(2)
    now, after = (TABLE[PAIRS[name].astype(int)] for name in ("state", "next_state"))
    rho, reward = PAIRS["weight"], PAIRS["reward"]
    for _ in range(20):
        delta = reward + DISCOUNT * after @ theta_td - now @ theta_td
        theta_td = theta_td + 0.3 * np.mean((rho * delta)[:, None] * now, axis=0)
        delta = reward + DISCOUNT * after @ theta_tdc - now @ theta_tdc
        correction = delta[:, None] * now - DISCOUNT * after * (now @ w)[:, None]
        moved = theta_tdc + 0.3 * np.mean(rho[:, None] * correction, axis=0)
        w = w + 0.2 * np.mean((rho * delta - now @ w)[:, None] * now, axis=0)
        theta_tdc = moved
    with jax.enable_x64(True):
        td0 = de.solve(0, saddle(), baselines.TD0(20, ROWS, CONSTANT))
        tdc = de.solve(0, saddle(), baselines.TDC(20, ROWS, CONSTANT, schedules.Constant(0.2)))
    np.testing.assert_allclose(td0.last.primal.weights, theta_td, atol=1e-12)
    np.testing.assert_allclose(tdc.last.primal.weights, theta_tdc, atol=1e-12)
    np.testing.assert_allclose(tdc.last.dual.function.weights, -w, atol=1e-12)


def test_residual_gradient_shrinks_the_values_of_two_states_by_one_plus_discount_squared() -> None:
    """Rewards 1 and -1, next state a fair coin: V = (1, -1); the variance of V(s') makes it (1, -1) / (1 + γ²)."""
    states = np.array([0, 0, 1, 1])
    coin = {"state": states, "reward": 1.0 - 2 * states, "next_state": [0, 1, 0, 1]}
    second = {name: np.tile(column, 2) for name, column in coin.items()}
    second["second_next_state"] = [0, 1, 0, 1, 1, 0, 1, 0]
    indicators = spaces.Basis(Lookup(np.eye(2)))
    problem = de.Saddle(problems.PolicyEvaluation(sources.Dataset(**second), 0.9), indicators, indicators)

    def values(solver: solvers.Solver) -> np.ndarray:
        return np.asarray(de.solve(0, problem, solver).last.primal([0.0, 1.0]))

    settings = (3000, 8, CONSTANT)
    np.testing.assert_allclose(values(baselines.ResidualGradient(*settings)), np.array([1, -1]) / 1.81, atol=1e-5)
    np.testing.assert_allclose(values(baselines.DoubleSampling(*settings)), [1, -1], atol=1e-5)
    np.testing.assert_allclose(values(solvers.EmbeddingSGD(*settings)), [1, -1], atol=1e-3)


def test_td0_diverges_where_the_fixed_point_repels_and_the_gradient_methods_do_not() -> None:
    """Features 1 and then 2, seen from the first state alone: A = 1 - 2 γ < 0; LSTD's solution is r / A."""
    doubling = {"state": [0.0], "reward": [1.0], "next_state": [1.0]}
    space = spaces.Basis(lambda s: 1 + s)
    problem = de.Saddle(problems.PolicyEvaluation(sources.Dataset(**doubling), 0.95), space, space)
    step = schedules.Constant(0.2)
    with pytest.warns(solvers.DivergenceWarning, match=r"TD\(0\) diverged"):
        assert not de.solve(0, problem, baselines.TD0(1000, 1, step)).finite
    slow = schedules.Constant(0.02)  # TDC wants its dual to be the faster of the two
    for solver in (baselines.TDC(10_000, 1, slow, step), baselines.GTD2(10_000, 1, step, step)):
        settled = de.solve(0, problem, solver)
        np.testing.assert_allclose(settled.last.primal([0.0]), [1 / (1 - 1.9)], atol=1e-4)


@pytest.mark.parametrize("make", [baselines.ResidualGradient, baselines.TD0, baselines.DoubleSampling])
def test_what_has_no_dual_leaves_it_at_zero_and_takes_any(make: Callable[..., Any]) -> None:
    from dualembed.kernels import Gaussian

    result = de.solve(0, saddle(dual=spaces.RKHS(Gaussian(1.0))), make(100, 4))
    np.testing.assert_array_equal(result.dual([0.0, 1.0, 2.0]), np.zeros(3))
    assert np.linalg.norm(result.primal.weights) > 0.01


def draws(count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, 50)
    return {"x": x, "y": x + 0.5, "z": x[:, None, None] + rng.normal(size=(50, count, 1))}


LINE = spaces.Basis(lambda z: jnp.concatenate([jnp.ones_like(z), z], axis=1))


@pytest.mark.parametrize(("make", "averaged"), [(baselines.SGDSAA, True), (baselines.VirtualSamples, False)])
def test_draws_are_averaged_by_one_and_regressed_on_by_the_other(make: Callable[..., Any], averaged: bool) -> None:
    columns = draws(3)
    z = columns["z"][..., 0]
    inputs = z.mean(axis=1) if averaged else z.reshape(-1)
    targets = columns["y"] if averaged else np.repeat(columns["y"], 3)
    wanted = np.polynomial.polynomial.polyfit(inputs, targets, 1)
    with jax.enable_x64(True):
        problem = de.Saddle(problems.Invariance(sources.Dataset(**columns)), LINE, LINE)
        result = de.solve(0, problem, make(2000, 50, CONSTANT))
    np.testing.assert_allclose(result.last.primal.weights, wanted, atol=1e-8)


def test_with_one_draw_virtual_samples_and_residual_gradient_are_one() -> None:
    data = sources.Dataset(**{**draws(1), "y": np.sign(draws(1)["y"])})
    problem = de.Saddle(problems.Invariance(data, losses.Logistic()), LINE, LINE)
    found = [de.solve(0, problem, make(50, 7)).primal.weights for make in (baselines.SGDSAA, baselines.VirtualSamples)]
    np.testing.assert_allclose(*found, rtol=1e-6)


def poisson_problem() -> de.Saddle:
    """One number θ with mean moment θ E[z]: loss exp(θ E[z]) - y θ E[z] is least at θ = log E[y] / E[z]."""
    rng = np.random.default_rng(4)
    z, y = np.meshgrid(rng.normal(1.0, 1.0, 20), rng.poisson(3.0, 20))  # every pair: y tells nothing of z
    columns = {"x": np.zeros(400), "z": z.ravel(), "y": y.ravel()}
    line = spaces.Basis(lambda z: z)
    return de.Saddle(problems.Invariance(sources.Dataset(**columns), losses.Poisson()), line, line)


def test_scgd_finds_the_loss_of_a_mean_where_sample_averages_do_not() -> None:
    problem = poisson_problem()
    table = problem.problem.source.table
    wanted = np.log(table["y"].mean()) / table["z"].mean()
    step, track = schedules.Power(0.5, 0.75), schedules.Power(1.0, 0.5)
    found = de.solve(0, problem, baselines.SCGD(40_000, 4, step, track))
    # The average still remembers the first steps, whose share fades like t^(-1/4); the last iterate does not.
    assert abs(float(found.last.primal.weights[0]) - wanted) < 0.01
    np.testing.assert_allclose(found.last.dual([[0.0, 0.0]]), wanted * table["z"].mean(), atol=0.05)
    biased = de.solve(0, problem, baselines.ResidualGradient(40_000, 4, schedules.Power(0.1, 0.5)))
    assert abs(float(biased.last.primal.weights[0]) - wanted) > 0.5


def test_scgd_follows_its_published_updates() -> None:
    key = jax.random.key(2)
    with jax.enable_x64(True):
        problem = poisson_problem()
        solver = baselines.SCGD(200, 3, schedules.Power(0.3, 0.75), schedules.Power(0.9, 0.5))
        result = de.solve(key, problem, solver)
        order = problem.problem.source.plan(jax.random.split(key)[1], batch=3, steps=200).order
    z, y = (problem.problem.source.table[name] for name in ("z", "y"))
    theta, inner = 0.0, 0.0
    for t, rows in enumerate(np.asarray(order), start=1):
        inner = inner + 0.9 * t**-0.5 * (np.mean(theta * z[rows]) - inner)
        theta = theta - 0.3 * t**-0.75 * np.mean((np.exp(inner) - y[rows]) * z[rows])
    np.testing.assert_allclose(result.last.primal.weights, [theta], rtol=1e-11)
    np.testing.assert_allclose(result.last.dual.function.weights, [inner], rtol=1e-11)


def without(prefix: str) -> dict[str, np.ndarray]:
    return {name: column for name, column in PAIRS.items() if not name.startswith(prefix)}


@pytest.mark.parametrize(
    ("make", "solver", "words"),
    [
        (saddle, baselines.VirtualSamples(5), "averages of f, with positive weights"),
        (lambda: saddle(without("second_")), baselines.DoubleSampling(5), "needs columns of a second, independent"),
        (
            lambda: saddle({**without("second_"), "second_nxt_state": PAIRS["state"]}),
            baselines.DoubleSampling(5),
            "second_nxt_state has no nxt_state",
        ),
        (lambda: saddle(without("second_weight")), baselines.DoubleSampling(5), "needs a column second_weight"),
        (lambda: saddle(without("second_next")), baselines.DoubleSampling(5), "needs a column second_next_state"),
        (
            lambda: saddle({**PAIRS, "terminated": 0 * PAIRS["state"], "second_terminated": 5 + 0 * PAIRS["state"]}),
            baselines.DoubleSampling(5),
            "second_... do not fit: terminated must be 0 or 1, not 5",
        ),
        (
            lambda: saddle({**PAIRS, "second_next_state": PAIRS["state"][:, None]}),
            baselines.DoubleSampling(5),
            "second_... do not fit: state and next_state must have the same shape",
        ),
        (
            lambda: de.Saddle(problems.Invariance(sources.Dataset(**draws(1))), LINE, LINE),
            baselines.SCGD(5),
            "SCGD tracks one mean.*varies from -",
        ),
        (
            lambda: de.Saddle(saddle().problem, spaces.Network(), LINE),
            baselines.TDC(5),
            "TDC gives both players the features of a linear space, which Network is not",
        ),
        (
            lambda: de.Saddle(saddle().problem, spaces.Network(), LINE),
            baselines.GTD2(5),
            "GTD2 gives both players the features",
        ),
        (
            lambda: de.Saddle(problems.PolicyEvaluation(sources.Dataset(**PAIRS), 0.9, losses.Huber(1.0)), LINE, LINE),
            baselines.DoubleSampling(5),
            "double sampling is for the square loss",
        ),
        (
            lambda: de.Saddle(problems.Invariance(sources.Dataset(**draws(1))), LINE, LINE),
            baselines.TD0(5),
            r"TD\(0\) tests the moment with f's own features",
        ),
        (
            lambda: de.Saddle(problems.PolicyEvaluation(sources.Dataset(**PAIRS), 0.9, losses.Huber(1.0)), LINE, LINE),
            baselines.TDC(5),
            "TDC is for the square loss",
        ),
    ],
)
def test_what_a_rival_cannot_solve_is_named(make: Callable[[], de.Saddle], solver: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        de.solve(0, make(), solver)
