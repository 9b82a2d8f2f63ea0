"""Evidence: how well a kernel explains what was seen, with its gradient in every hyper-parameter.

*Moment evidence* judges kernels for f. The data enter through r moments b = E[q t], t = y - offset, of instruments q,
functions of the context that are orthonormal on the data. For f = wᵀψ on landmarks, w ~ N(0, I), |ψ(x)|² = k(x, x), and
noise of covariance Ω in q times the residual,

    b = A w + ε,  A = E[q gᵀ],  g = Σ_k w_k ψ(p_k),  ε ~ N(0, Ω / n),   evidence = log N(b; 0, A Aᵀ + Ω / n).

One Ω serves all candidates: re-estimated for each, a wild candidate would win by inflating its own noise. Evidence of
different instruments cannot be compared, since they see different b.

*Regression evidence* judges kernels for functions of the context, by how well they predict what can be observed
there; *instruments*, the dual's features, take their bandwidths from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from dualembed.arrays import Floats
from dualembed.kernels import Columns, Gaussian, Kernel
from dualembed.problems.base import padding
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.nystrom import whiten

JITTER = 1e-9  # of the mean diagonal, added to the landmarks' kernel matrix before its Cholesky factor
REACH = 6.0  # the logarithm of a hyper-parameter moves at most this far from its centre
BLOCK = 32  # moments are padded to a multiple of it, so that data sets share compiled code
ROWS = 2000  # contexts that the bandwidths are learnt from
LANDMARKS = 100  # of the regression evidence
BANDWIDTH_SPREAD = 0.3  # of the logarithm, in the hyper-prior
LEVEL_SPREAD = 3.0
COLUMNS = (4, 16, 64)  # that few rows are padded to, since compiling for each number of columns takes seconds
FEW_ROWS = 256
CONSTANT = 10.0  # the constant's size over the largest standard deviation of an instrument of unit norm


class Moments(eqx.Module):
    """r moments of n samples, in float64."""

    points: jax.Array  # (n, K, d)
    weights: jax.Array  # (n, K)
    instruments: jax.Array  # q / n, (n, r)
    observed: jax.Array  # b, (r,)
    noise: jax.Array  # Ω / n, (r, r)


def moments(
    points: Floats,
    weights: Floats,
    target: Floats,
    *,
    instruments: Floats,
    noise: Floats,
    mass: Floats | None = None,
) -> Moments:
    """The moments of samples with instruments, in float64.

    Parameters
    ----------
    points : array of shape (n, K, d)
        Points at which f enters.
    weights : array of shape (n, K)
        Weights of f there.
    target : array of shape (n,)
        Targets t.
    instruments : array of shape (n, r)
        Instruments q.
    noise : array of shape (r, r)
        Covariance Ω of q times the residual.
    mass : array of shape (n,), optional
        How many rows each sample counts as; by default 1 each.

    Returns
    -------
    Moments
        The moments, padded to sizes that share compiled code.
    """
    rows, count = instruments.shape
    pad = -count % BLOCK  # instruments that are zero, with unit noise, add nothing to the evidence
    worth = rows if mass is None else float(mass.sum())
    counted = instruments if mass is None else mass[:, None] * instruments
    q = np.pad(counted, ((0, 0), (0, pad))) / worth
    covariance = np.eye(count + pad)
    covariance[:count, :count] = np.asarray(noise) / worth
    more = padding(rows)  # and neither do rows on which all instruments are zero
    parts = padded(points, more), padded(weights, more), np.pad(q, ((0, more), (0, 0)))
    with jax.enable_x64(True):
        return Moments(*(jnp.asarray(part) for part in (*parts, q.T @ target, covariance)))


def padded(rows: Floats, more: int) -> Floats:
    """The rows with the first one repeated at the end."""
    rows = np.asarray(rows)
    return np.concatenate([rows, np.repeat(rows[:1], more, axis=0)])


def evidence(kernel: Kernel, seen: Moments, landmarks: jax.Array) -> jax.Array:
    """The moment evidence log N(b; 0, A Aᵀ + Ω / n), up to a constant, of f from the kernel's Gaussian process.

    It is differentiable in the leaves of the kernel, and wants float64: call it under `jax.enable_x64(True)`.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the Gaussian process.
    seen : Moments
        What `moments` gives.
    landmarks : array of shape (m, d)
        Points that carry the process.

    Returns
    -------
    array
        One number.
    """
    rows, count, width = seen.points.shape
    values = kernel.gram(seen.points.reshape(-1, width), landmarks).reshape(rows, count, -1)
    cross = seen.instruments.T @ jnp.einsum("nk,nkm->nm", seen.weights, values)
    explained = jax.scipy.linalg.solve_triangular(_factor(kernel, landmarks), cross.T, lower=True)
    root = jnp.linalg.cholesky(seen.noise + explained.T @ explained)
    misfit = jax.scipy.linalg.solve_triangular(root, seen.observed, lower=True)
    return -0.5 * misfit @ misfit - jnp.sum(jnp.log(jnp.diag(root)))


class Widening(NamedTuple):
    """Few rows with so many columns `more`, which are 1 everywhere, so that data sets share compiled code.

    Kernels of differences, and of products about a middle of 1, do not see them.
    """

    columns: int
    more: int

    @staticmethod
    def of(rows: int, columns: int) -> Widening:
        """That of so many rows and columns."""
        wide = [count for count in COLUMNS if count >= columns] if rows <= FEW_ROWS else []
        return Widening(columns, wide[0] - columns if wide else 0)

    def points(self, points: Floats) -> Floats:
        """Points (..., columns) with more columns."""
        return np.concatenate([points, np.ones((*points.shape[:-1], self.more))], axis=-1)

    def parameters(self, tree: Any, fill: float) -> Any:
        """Hyper-parameters with those of more columns."""
        return jax.tree.map(lambda leaf: np.append(leaf, np.full(self.more, fill)) if np.ndim(leaf) else leaf, tree)

    def narrowed(self, tree: Any) -> Any:
        """Hyper-parameters without them."""
        return jax.tree.map(lambda leaf: leaf[: self.columns] if np.ndim(leaf) else leaf, tree)


class Regression(eqx.Module):
    """A kernel, and for each of J responses the amplitude of its function and the variance of its noise, (J,)."""

    kernel: Kernel
    amplitudes: Any
    noises: Any


def regression_evidence(
    model: Regression, inputs: jax.Array, responses: jax.Array, landmarks: jax.Array, real: jax.Array
) -> jax.Array:
    """A lower bound on the log evidence of a Gaussian process for each column of responses (n, J), one kernel for all.

    The bound of Titsias (2009) with these landmarks: it falls where the bandwidth is too short for them. A row counts
    as real² rows, of the numbers `real` (n,), by which its responses must be multiplied.
    """
    kernel = model.kernel
    values = kernel.gram(landmarks, inputs) * real
    half = jax.scipy.linalg.solve_triangular(_factor(kernel, landmarks), values, lower=True)
    square = half @ half.T
    left_out = jnp.maximum(jnp.sum(kernel.diagonal(inputs) * real**2) - jnp.trace(square), 0.0)

    def one(amplitude: jax.Array, noise: jax.Array, response: jax.Array) -> jax.Array:
        ratio = amplitude / noise
        root = jnp.linalg.cholesky(jnp.eye(len(landmarks)) + ratio * square)
        seen = jax.scipy.linalg.solve_triangular(root, half @ response, lower=True)
        misfit = (response @ response - ratio * seen @ seen) / noise
        entropy = jnp.sum(jnp.log(jnp.diag(root))) + 0.5 * jnp.sum(real**2) * jnp.log(noise)
        return -0.5 * misfit - entropy - 0.5 * ratio * left_out

    return jnp.sum(jax.vmap(one)(model.amplitudes, model.noises, responses.T))


class Maximum(NamedTuple):
    """The hyper-parameters of a maximum, its log evidence with the log hyper-prior, and what it took."""

    parameters: Any
    value: float
    evaluations: int


def maximise(objective: Callable[..., Any], centre: Any, spread: Any, data: Any, *, start: Any = None) -> Maximum:
    """Maximise objective(parameters, *data) + log hyper-prior by L-BFGS.

    The logarithms of the parameters have independent normal hyper-priors around `centre`.

    Parameters
    ----------
    objective : callable
        A function of parameters and data, written in JAX.
    centre : pytree
        Positive numbers, such as a kernel.
    spread : pytree
        Standard deviations of the hyper-priors, in the structure of `centre`; 0 holds a leaf.
    data : tuple
        Further arguments of the objective.
    start : pytree, optional
        Where to begin; by default the centre.

    Returns
    -------
    Maximum
        The parameters, the value with the log hyper-prior, and the number of evaluations.
    """
    with jax.enable_x64(True):
        start = centre if start is None else start
        start, centre, spread = (jax.tree.map(_to_float64, tree) for tree in (start, centre, spread))
        scales = np.asarray(_flatten(jax.tree.map(lambda leaf, scale: scale * jnp.ones_like(leaf), centre, spread)))
        free = scales > 0
        moves = np.zeros(free.size)
        evaluations = 0

        def negative(some: Floats) -> tuple[float, Floats]:
            nonlocal evaluations
            evaluations += 1
            moves[free] = some
            value, slope = _value_and_slope(jnp.asarray(moves), objective, centre, data)
            penalty = 0.5 * np.sum((some / scales[free]) ** 2)
            if not np.isfinite(value) or not np.all(np.isfinite(slope)):
                return 1e25, np.zeros_like(some)  # L-BFGS shortens its step
            return penalty - float(value), some / scales[free] ** 2 - np.asarray(slope)[free]

        held = jax.tree.map(lambda leaf, middle: jnp.where(leaf == middle, 0.0, jnp.log(leaf / middle)), start, centre)
        first = np.clip(np.asarray(_flatten(held))[free], -REACH, REACH)
        bounds = [(-REACH, REACH)] * len(first)
        optimum = optimize.minimize(
            negative, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40, "ftol": 1e-6}
        )
        moves[free] = optimum.x
        best = jax.tree.map(np.asarray, _scaled(centre, jnp.asarray(moves)))
    return Maximum(best, -float(optimum.fun), evaluations)


@eqx.filter_jit
def _value_and_slope(moves: jax.Array, objective: Any, centre: Any, data: Any) -> tuple[jax.Array, jax.Array]:
    return jax.value_and_grad(lambda moves: objective(_scaled(centre, moves), *data))(moves)


def _scaled(centre: Any, moves: jax.Array) -> Any:
    """The pytree with each leaf times exp of its part of the moves."""
    leaves, structure = jax.tree.flatten(centre)
    parts = jnp.split(moves, np.cumsum([leaf.size for leaf in leaves])[:-1])
    moved = [leaf * jnp.exp(part.reshape(leaf.shape)) for leaf, part in zip(leaves, parts, strict=True)]
    return jax.tree.unflatten(structure, moved)


def _flatten(tree: Any) -> jax.Array:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def _to_float64(leaf: Any) -> jax.Array:
    return jnp.asarray(leaf, dtype=jnp.float64)


def _factor(kernel: Kernel, landmarks: jax.Array) -> jax.Array:
    """The Cholesky factor of the landmarks' kernel matrix, a little of its diagonal added."""
    gram = kernel.gram(landmarks, landmarks)
    return jnp.linalg.cholesky(gram + JITTER * jnp.trace(gram) / len(landmarks) * jnp.eye(len(landmarks)))


class Instruments(FeatureMap):
    """q(κ) = Tᵀ(1, k(κ, landmarks))."""

    kernel: Kernel
    landmarks: Floats  # (m, c)
    transform: Floats  # T, (1 + m, r)

    @property
    def dimension(self) -> int:
        """Coordinates of a context."""
        return self.landmarks.shape[1]

    @property
    def size(self) -> int:
        """The number r of instruments."""
        return self.transform.shape[1]

    def __call__(self, xs: Any) -> Any:
        """The instruments (n, r) at contexts (n, c)."""
        return self.transform[0] + self.kernel.gram(xs, self.landmarks) @ self.transform[1:]


def orthonormal(
    kernel: Kernel, contexts: Floats, landmarks: Floats, *, tolerance: float, mass: Floats | None = None
) -> Instruments:
    """A constant and the main directions of the kernel's features, orthonormal on the contexts.

    Directions whose variance there is below `tolerance` times the largest are left out: they would add noise. Means
    over the contexts are weighted by their `mass` (n,), where they have any.
    """
    whitener = whiten(kernel, landmarks, 1e-9)
    features = np.asarray(kernel.gram(contexts, landmarks)) @ whitener
    mean = np.average(features, axis=0, weights=mass)
    features -= mean
    rows = len(features)
    if mass is not None:
        features *= np.sqrt(mass / mass.mean())[:, None]
    variances, directions = np.linalg.eigh(features.T @ features / rows)
    kept = variances > max(tolerance * variances[-1], 1e-14)
    directions = directions[:, kept] / np.sqrt(variances[kept])
    transform = np.zeros((1 + len(landmarks), 1 + directions.shape[1]))
    transform[0, 0] = 1.0
    transform[0, 1:] = -mean @ directions
    transform[1:, 1:] = whitener @ directions
    return Instruments(kernel, landmarks, transform)


def of_unit_norm(instruments: Instruments) -> Instruments:
    """The same functions, each of norm 1 in the kernel's RKHS, whose penalty then is that of their weights.

    The constant, which is not in it, is made so large that a penalty of the others hardly counts for it.
    """
    constant, others = instruments.transform[:, :1], instruments.transform[:, 1:]
    gram = np.asarray(instruments.kernel.gram(instruments.landmarks, instruments.landmarks))
    norms = np.sqrt(np.einsum("ij,ij->j", others[1:], gram @ others[1:]))
    largest = 1.0 / norms.min() if norms.size else 1.0
    transform = np.concatenate([CONSTANT * largest * constant, others / norms], axis=1)
    return Instruments(instruments.kernel, instruments.landmarks, transform)


def bandwidths(contexts: Floats, responses: Floats, *, widest: Floats, mass: Floats | None = None) -> Floats:
    """A bandwidth for each column of the contexts, short enough to predict the responses (n, J), at most `widest`.

    The dual function to be represented is E[moment - y | κ], so that the responses are what the moment is made of:
    targets, and the parts of the moment at a first f. They are regressed on the context by Gaussian processes of one
    Gaussian kernel, whose bandwidths maximise the evidence with a hyper-prior around `widest`. A dual that is too
    poor ruins any f; one that is richer than needed costs a little noise, so that bandwidths never grow. A row counts
    as `mass` (n,) rows.
    """
    contexts, responses = contexts[:ROWS], responses[:ROWS]
    counted = np.ones(len(contexts)) if mass is None else np.sqrt(mass[:ROWS])
    spreads = responses.std(axis=0)
    responses = (responses - responses.mean(axis=0))[:, spreads > 0] / spreads[spreads > 0]
    if responses.shape[1] == 0:
        return widest
    levels, wider = np.full(responses.shape[1], 0.5), Widening.of(len(contexts), contexts.shape[1])
    contexts, middle = wider.points(contexts), wider.parameters(widest, 1.0)
    centre = Regression(Gaussian(middle), levels, levels)
    spread = Regression(
        wider.parameters(Gaussian(np.full(len(widest), BANDWIDTH_SPREAD)), 0.0),
        np.full_like(levels, LEVEL_SPREAD),
        np.full_like(levels, LEVEL_SPREAD),
    )
    more = padding(len(contexts))
    real = np.pad(counted, (0, more))
    landmarks = padded(contexts[:LANDMARKS], max(LANDMARKS - len(contexts), 0))
    with jax.enable_x64(True):
        parts = padded(contexts, more), np.pad(responses * counted[:, None], ((0, more), (0, 0))), landmarks, real
        data = tuple(jnp.asarray(part) for part in parts)
    start = Regression(Gaussian(wider.parameters(0.5 * widest, 1.0)), levels, levels)
    best = maximise(regression_evidence, centre, spread, data, start=start).parameters
    return np.minimum(wider.narrowed(np.asarray(best.kernel.bandwidth)), widest)


def kernel_on(columns: tuple[int, ...], widths: Floats, dimension: int) -> Kernel:
    """A Gaussian kernel of these columns of contexts that have `dimension` columns."""
    kernel = Gaussian(np.asarray(widths, dtype=np.float64))
    return kernel if len(columns) == dimension else Columns(kernel, columns)
