"""With full-batch slopes a step is the gradient of the empirical saddle, for every pair of spaces."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from tests.laws.cases import KERNEL, SPACES

from dualembed import losses, problems, schedules, solvers, sources
from dualembed.saddle import Saddle
from dualembed.solvers.stochastic import Run, step
from dualembed.spaces.base import Regulariser, Update
from dualembed.spaces.doubly_stochastic import draw_block

ROWS, POINTS, DIMENSION = 12, 2, 2
PENALTY = (0.3, 0.2)
RATE = (0.05, 0.08)
PROBES = jax.random.normal(jax.random.key(99), (5, DIMENSION))


def terms_numpy(sample: dict[str, jax.Array]) -> problems.Terms:
    return problems.Terms(sample["points"], sample["weights"], sample["offset"], sample["context"], sample["target"])


def data() -> sources.Dataset:
    keys = jax.random.split(jax.random.key(1), 5)
    return sources.Dataset(
        points=jax.random.normal(keys[0], (ROWS, POINTS, DIMENSION)),
        weights=jax.random.normal(keys[1], (ROWS, POINTS)),
        offset=jax.random.normal(keys[2], (ROWS,)),
        context=jax.random.normal(keys[3], (ROWS, DIMENSION)),
        target=jnp.sign(jax.random.normal(keys[4], (ROWS,))),
    )


@jax.jit
def seen(space: Any, state: Any, xs: jax.Array) -> jax.Array:
    """Values at as many points as the data have points and contexts together, and then at the probes."""
    return space.evaluate(state, jnp.concatenate([xs, PROBES]))


def everywhere(space: Any, state: Any, terms: problems.Terms) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Values at the points, at the contexts and at the probes, from one program for each space."""
    values = seen(space, state, jnp.concatenate([terms.points.reshape(-1, DIMENSION), terms.context]))
    return values[: ROWS * POINTS], values[ROWS * POINTS : -len(PROBES)], values[-len(PROBES) :]


def family(
    state: Any, xs: jax.Array, theta: jax.Array, current: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """(values at xs, |f|²) of a family of functions through the current one, (at xs, at the probes), at theta = 0."""
    if hasattr(state, "current"):  # linear: the weights
        weights = state.current + theta
        return state.features(xs) @ weights, jnp.sum(weights**2)
    if hasattr(state, "network"):
        flat, unravel = jax.flatten_util.ravel_pytree(state.network.parameters)
        network = state.network.with_parameters(unravel(flat + theta))
        return network.evaluate(xs), jnp.sum((flat + theta) ** 2)
    # Functions of an RKHS: along k(probe, ·), where <f, k(probe, ·)> = f(probe).
    return current[0] + KERNEL.gram(xs, PROBES) @ theta, 2 * current[1] @ theta


def size_of(state: Any) -> int:
    if hasattr(state, "current"):
        return state.current.size
    if hasattr(state, "network"):
        return jax.flatten_util.ravel_pytree(state.network.parameters)[0].size
    return len(PROBES)


@jax.jit
def change(space: Any, old: Any, new: Any) -> jax.Array:
    """How far the step moved, in the coordinates of `family`."""
    if hasattr(old, "current"):
        return new.current - old.current
    if hasattr(old, "network"):
        ravel = jax.flatten_util.ravel_pytree
        return ravel(new.network.parameters)[0] - ravel(old.network.parameters)[0]
    return space.evaluate(new, PROBES) - space.evaluate(old, PROBES)


def gradients(saddle: Saddle, run: Run) -> tuple[jax.Array, jax.Array]:
    """Gradients of the empirical saddle in both players, by autodiff of its definition."""
    terms = saddle.terms()
    points, _, primal_probes = everywhere(saddle.primal, run.primal, terms)
    _, contexts, dual_probes = everywhere(saddle.dual, run.dual, terms)
    return differentiated(saddle, run, (points, primal_probes), (contexts, dual_probes))


@jax.jit
def differentiated(saddle: Saddle, run: Run, primal: Any, dual: Any) -> tuple[jax.Array, jax.Array]:
    terms = saddle.terms()
    points = terms.points.reshape(-1, DIMENSION)

    def value(theta: jax.Array, eta: jax.Array) -> jax.Array:
        f, primal_norm2 = family(run.primal, points, theta, primal)
        v, dual_norm2 = family(run.dual, terms.context, eta, dual)
        u = saddle.active_link.dual(saddle.loss, v, terms.target)
        moment = jnp.sum(terms.weights * f.reshape(ROWS, POINTS), axis=1) + terms.offset
        payoff = jnp.mean(u * moment - saddle.loss.conjugate(u, terms.target))
        return payoff + PENALTY[0] / 2 * primal_norm2 - PENALTY[1] / 2 * dual_norm2

    return jax.grad(value, argnums=(0, 1))(jnp.zeros(size_of(run.primal)), jnp.zeros(size_of(run.dual)))


def started(saddle: Saddle) -> tuple[solvers.EmbeddingSGD, Run, tuple[Any, jax.Array]]:
    """A run three steps old, so that nothing is zero any more, and the whole data set as its next batch."""
    solver = solvers.EmbeddingSGD(
        steps=4, batch=ROWS, primal_step=schedules.Constant(RATE[0]), dual_step=schedules.Constant(RATE[1])
    )
    run = solver.begin(jax.random.key(2), saddle)
    plan = saddle.problem.source.plan(jax.random.key(3), batch=ROWS, steps=4)
    for number in range(3):
        run = compiled_step(solver, saddle.without_source(), run, plan.batch(number), jnp.asarray(number))
    return solver, run, plan.batch(3)


compiled_step = jax.jit(step)


EXACT = ["rkhs", "fourier", "nystrom", "basis", "network"]
# Every space in either role: players meet only in slopes at points, and every pair is a program of its own to compile.
PAIRS = list(zip(EXACT, EXACT[1:] + EXACT[:1], strict=True))


@pytest.mark.parametrize(("primal", "dual"), PAIRS)
def test_a_full_batch_step_is_the_gradient_of_the_empirical_saddle(primal: str, dual: str) -> None:
    check_step(problems.Moment(data(), terms_numpy), primal, dual)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Huber(5.0)])
def test_the_same_holds_behind_a_link(loss: losses.Loss) -> None:
    check_step(problems.Moment(data(), terms_numpy, loss), "fourier", "nystrom")


def check_step(problem: problems.Problem, primal: str, dual: str) -> None:
    saddle = Saddle(problem, SPACES[primal], SPACES[dual], primal_penalty=PENALTY[0], dual_penalty=PENALTY[1])
    solver, run, batch = started(saddle)
    new = compiled_step(solver, saddle.without_source(), run, batch, jnp.asarray(3))
    descent, ascent = gradients(saddle, run)
    np.testing.assert_allclose(change(saddle.primal, run.primal, new.primal), -RATE[0] * descent, atol=3e-6)
    np.testing.assert_allclose(change(saddle.dual, run.dual, new.dual), RATE[1] * ascent, atol=3e-6)


@pytest.mark.parametrize(
    ("role", "other"),
    [
        ("primal", "rkhs"),
        pytest.param("primal", "doubly-stochastic", marks=pytest.mark.slow),
        pytest.param("dual", "network", marks=pytest.mark.slow),
        ("dual", "doubly-stochastic"),
    ],
)
def test_doubly_stochastic_steps_are_the_gradient_in_expectation(role: str, other: str) -> None:
    pair = {"primal": SPACES[other], "dual": SPACES[other], role: SPACES["doubly-stochastic"]}
    saddle = Saddle(problems.Moment(data(), terms_numpy), **pair, primal_penalty=PENALTY[0], dual_penalty=PENALTY[1])
    _, run, batch = started(saddle)
    update, rate, regulariser = update_of(saddle, run, batch, role)
    space, state = getattr(saddle, role), getattr(run, role)

    def new_block(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(what the new block adds at the probes, the coefficients of the blocks before) under features from key."""
        new = space.descend(eqx.tree_at(lambda s: s.key, state, key), update, rate, regulariser)
        features = draw_block(key, 3, KERNEL, size=space.block, dimension=DIMENSION)
        return features(PROBES) @ new.coefficients[3], new.coefficients[:3]

    added, before = jax.jit(jax.vmap(new_block))(jax.random.split(jax.random.key(7), 6_000))
    shrink = 1 - rate * regulariser.penalty
    np.testing.assert_allclose(before[0], shrink * state.coefficients[:3], rtol=1e-5, atol=1e-7)
    gradient = gradients(saddle, run)[role == "dual"]
    expected = rate * gradient * (1 if role == "dual" else -1)
    probes = everywhere(space, state, saddle.terms())[2]
    mean = jnp.mean(added, axis=0) + (shrink - 1) * probes
    error = jnp.std(added, axis=0) / np.sqrt(len(added))
    assert np.all(np.abs(mean - expected) < 4 * error + 1e-6)
    assert np.all(4 * error < 0.2 * np.max(np.abs(expected)))  # the test could tell a wrong factor


def update_of(saddle: Saddle, run: Run, batch: Any, role: str) -> tuple[Update, float, Regulariser]:
    """The fourth step as the space in that role sees it."""
    terms = saddle.problem.terms(batch[0])
    values = everywhere(saddle.primal, run.primal, terms)[0].reshape(ROWS, POINTS)
    dual_values = everywhere(saddle.dual, run.dual, terms)[1]
    primal_slopes, dual_slopes = saddle.slopes(terms, values, dual_values)
    number = jnp.asarray(3)
    if role == "primal":
        return Update(terms.points, values, primal_slopes, batch[1], number), RATE[0], saddle.primal_regulariser
    update = Update(terms.context[:, None], dual_values[:, None], -dual_slopes[:, None], batch[1], number)
    return update, RATE[1], saddle.dual_regulariser
