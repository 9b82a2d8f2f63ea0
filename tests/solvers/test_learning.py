"""What Embedding-SGD learns: the dual is the slope of the loss at the conditional mean, and every loss trains."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import dualembed as de
from dualembed import kernels, links, losses, problems, schedules, solvers, sources, spaces

GAUSSIAN = kernels.Gaussian(0.5)


def offset_only(sample: dict[str, jax.Array]) -> problems.Terms:
    """A moment that f cannot change, so that the dual's optimum stands still: m = 2x + noise."""
    zero = jnp.zeros_like(sample["y"])
    x = sample["x"][:, None]
    context = jnp.concatenate([x, sample["y"][:, None]], axis=1)
    return problems.Terms(x[:, None], zero[:, None], sample["m"], context, sample["y"])


def test_a_clipped_dual_rests_where_lazy_projection_drifts() -> None:
    class Lazy(links.Link):
        """The link without its pull back into the domain."""

        needs_target = True

        def dual(self, loss: losses.Loss, v: jax.Array, y: jax.Array) -> jax.Array:
            return loss.project(v, y)

        def slope(self, loss: losses.Loss, v: jax.Array, moment: jax.Array, y: jax.Array) -> jax.Array:
            return moment - loss.conjugate_slope(loss.project(v, y), y)

    loss = losses.Huber(0.8)
    assert dual_error(loss, links.Clipped()) < 0.05
    assert dual_error(loss, Lazy()) > 0.2


TARGETS = {
    losses.Square(): (0.0, 1.0),
    losses.Huber(0.8): (0.0, 1.0),
    losses.Logistic(): (-1.0, 1.0),
    losses.Poisson(): (0.0, 2.0),
    losses.SquaredHinge(): (-1.0, 1.0),
    losses.SmoothedHinge(1.0): (-1.0, 1.0),
}


@pytest.mark.parametrize("loss", TARGETS, ids=lambda loss: type(loss).__name__)
def test_the_dual_approaches_the_slope_of_the_loss_at_the_conditional_mean(loss: losses.Loss) -> None:
    assert dual_error(loss, loss.link) < 0.08


def dual_error(loss: losses.Loss, link: links.Link) -> float:
    """RMS distance of the learnt u(x, y) from loss'_y(2x), in units of its RMS, the worse of two targets."""
    low, high = TARGETS[loss]

    def draw(key: jax.Array) -> dict[str, jax.Array]:
        place, noise, label = jax.random.split(key, 3)
        x = jax.random.uniform(place, minval=-1.0, maxval=1.0)
        y = jnp.where(jax.random.bernoulli(label), high, low)
        return {"x": x, "y": y, "m": 2 * x + 0.5 * jax.random.normal(noise)}

    kernel = kernels.Columns(kernels.Gaussian(0.5), (0,)) * kernels.Columns(kernels.Categorical(), (1,))
    problem = problems.Moment(sources.Simulator(draw), offset_only, loss)
    result = de.solve(
        0,
        de.Saddle(problem, spaces.Basis(lambda x: x), spaces.RKHS(kernel), link=link),
        solvers.EmbeddingSGD(1500, 40, schedules.OffsetSqrt(0.1, 1.0), schedules.OffsetSqrt(20.0, 5.0)),
    )
    x = jnp.linspace(-0.9, 0.9, 41)
    errors = []
    for y in (low, high):
        target = jnp.full_like(x, y)
        learnt = result.dual(jnp.stack([x, target], axis=1), target)
        wanted = loss.slope(2 * x, target)
        errors.append(float(jnp.linalg.norm(learnt - wanted) / jnp.linalg.norm(wanted)))
    return max(errors)


def labelled(loss: losses.Loss) -> sources.Simulator:
    """Targets a loss can take, driven by the same hidden E[g(z) | x], g = 1.5 sin 3z."""

    def draw(key: jax.Array) -> dict[str, jax.Array]:
        place, spread, noise = jax.random.split(key, 3)
        x = jax.random.uniform(place, minval=-1.0, maxval=1.0)
        signal = 1.5 * jnp.exp(-0.5 * (3 * 0.2) ** 2) * jnp.sin(3 * x)
        if isinstance(loss, losses.Poisson):
            y = jax.random.poisson(noise, jnp.exp(signal)).astype(float)
        elif isinstance(loss, (losses.Square, losses.Huber, losses.Pinball)):
            y = signal + 0.3 * jax.random.normal(noise)
        else:
            y = jnp.where(jax.random.uniform(noise) < jax.nn.sigmoid(3 * signal), 1.0, -1.0)
        return {"x": x, "z": x + 0.2 * jax.random.normal(spread), "y": y}

    return sources.Simulator(draw)


@pytest.mark.parametrize(
    "loss",
    [
        losses.Square(),
        losses.Huber(1.0),
        losses.Logistic(),
        losses.Hinge(),
        losses.SmoothedHinge(0.5),
        losses.SquaredHinge(),
        losses.Pinball(0.3),
        losses.Poisson(),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_every_loss_trains(loss: losses.Loss) -> None:
    source = labelled(loss)
    kernel = kernels.Columns(kernels.Gaussian(0.4), (0,)) * kernels.Columns(kernels.Gaussian(1.0), (1,))
    primal, dual = spaces.Fourier(GAUSSIAN, size=256), spaces.Fourier(kernel, size=256)
    problem = problems.Invariance(source, loss)
    solver = solvers.EmbeddingSGD(1500, 50, schedules.OffsetSqrt(3.0, 1.0), schedules.OffsetSqrt(10.0, 1.0))
    result = de.solve(0, de.Saddle(problem, primal, dual, primal_penalty=1e-3), solver)
    assert result.finite
    test = source.pilot(jax.random.key(1), 20_000)
    noise = jnp.sqrt(2.0) * jax.scipy.special.erfinv(jnp.linspace(-0.99, 0.99, 33))
    draws = (test["x"][:2000, None] + 0.2 * noise).reshape(-1)
    mean = result.primal(draws).reshape(2000, 33).mean(axis=1)
    y = test["y"][:2000]
    # The best function of x alone: a kernel fit of this loss to the labels, by gradient descent.
    best = best_risk(loss, test["x"], test["y"])
    reached = float(jnp.mean(loss.value(mean, y)))
    nothing = float(jnp.mean(loss.value(jnp.zeros_like(y), y)))
    assert reached - best < 0.2 * (nothing - best), (nothing, reached, best)


def best_risk(loss: losses.Loss, x: jax.Array, y: jax.Array) -> float:
    """The least mean loss of a smooth function of x, without any conditional expectation in the way."""
    features = jnp.stack([jnp.cos(k * (x + 1) * jnp.pi / 2) for k in range(7)], axis=1)

    def step(weights: jax.Array, _: None) -> tuple[jax.Array, None]:
        return weights - 0.3 * loss.slope(features @ weights, y) @ features / len(y), None

    weights = jax.jit(lambda: jax.lax.scan(step, jnp.zeros(7), None, length=1500)[0])()
    return float(jnp.mean(loss.value(features[:2000] @ weights, y[:2000])))
