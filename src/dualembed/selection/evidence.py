"""Moment evidence: how well a kernel explains what was seen, with its slope in every hyper-parameter.

It judges kernels for f. The data enter through r moments b = E[q t], t = y - offset, of instruments q,
functions of the context that are orthonormal on the data. For f = wᵀψ on landmarks, w ~ N(0, I), |ψ(x)|² = k(x, x), and
noise of covariance Ω in q times the residual,

    b = A w + ε,  A = E[q gᵀ],  g = Σ_k w_k ψ(p_k),  ε ~ N(0, Ω / n),   evidence = log N(b; 0, A Aᵀ + Ω / n).

One Ω serves all candidates: re-estimated for each, a wild candidate would win by inflating its own noise. Evidence of
different instruments cannot be compared, since they see different b.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize
from scipy.linalg import cho_solve, cholesky, solve_triangular

from dualembed.arrays import Floats
from dualembed.kernels import Kernel

JITTER = 1e-9  # of the mean diagonal, added to the landmarks' kernel matrix before its Cholesky factor
REACH = 6.0  # the logarithm of a hyper-parameter moves at most this far from its centre


class Moments(NamedTuple):
    """r moments of n samples, in float64."""

    points: Floats  # (n, K, d)
    weights: Floats  # (n, K)
    instruments: Floats  # q / n, (n, r)
    observed: Floats  # b, (r,)
    noise: Floats  # Ω / n, (r, r)


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
        The moments.
    """
    worth = len(instruments) if mass is None else float(mass.sum())
    q = (instruments if mass is None else mass[:, None] * instruments) / worth
    return Moments(np.asarray(points), np.asarray(weights), q, q.T @ target, np.asarray(noise) / worth)


def evidence(kernel: Kernel, seen: Moments, landmarks: jax.Array) -> jax.Array:
    """The moment evidence log N(b; 0, A Aᵀ + Ω / n), up to a constant, of f from the kernel's Gaussian process.

    It is written in JAX, differentiable in the leaves of any kernel, and wants float64: call it under
    `jax.enable_x64(True)`.

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
    places = jnp.asarray(seen.points).reshape(-1, seen.points.shape[2])
    values = kernel.gram(places, landmarks).reshape(*seen.weights.shape, -1)
    cross = seen.instruments.T @ jnp.einsum("nk,nkm->nm", seen.weights, values)
    gram = kernel.gram(landmarks, landmarks)
    gram = gram + JITTER * jnp.trace(gram) / len(landmarks) * jnp.eye(len(landmarks))
    explained = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(gram), cross.T, lower=True)
    root = jnp.linalg.cholesky(seen.noise + explained.T @ explained)
    misfit = jax.scipy.linalg.solve_triangular(root, seen.observed, lower=True)
    return -0.5 * misfit @ misfit - jnp.sum(jnp.log(jnp.diag(root)))


def evidence_with_slopes(kernel: Kernel, seen: Moments, landmarks: Floats) -> tuple[float, list[Floats]]:
    """The same number, and its slopes in the leaves of the kernel, written out: nothing is traced or compiled.

    With C = E[q k(p, landmarks)], K the landmarks' kernel matrix and S = C K⁻¹ Cᵀ + Ω / n, the slope in S is
    G = (S⁻¹ b bᵀ S⁻¹ - S⁻¹) / 2, from which those in C and K follow, 2 G C K⁻¹ and -K⁻¹ Cᵀ G C K⁻¹; kernels pull these
    back to their hyper-parameters.

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
    value : float
        The evidence; minus infinity where rounding leaves no positive definite matrix.
    slopes : list of arrays
        Slopes, in the order of the kernel's leaves.
    """
    count = len(landmarks)
    values, pull = kernel.gram_with_slopes(seen.points.reshape(-1, seen.points.shape[2]), landmarks)
    gram, pull_gram = kernel.gram_with_slopes(landmarks, landmarks)
    weighted = (seen.instruments[:, None, :] * seen.weights[:, :, None]).reshape(len(values), -1)
    cross = weighted.T @ values
    try:
        factor = cholesky(gram + JITTER * np.trace(gram) / count * np.eye(count), lower=True)
        explained = solve_triangular(factor, cross.T, lower=True)
        root = cholesky(seen.noise + explained.T @ explained, lower=True)
    except np.linalg.LinAlgError:
        return -np.inf, [np.zeros(np.shape(leaf)) for leaf in jax.tree.leaves(kernel)]
    misfit = solve_triangular(root, seen.observed, lower=True)
    solved = cho_solve((root, True), seen.observed)
    spread = 0.5 * (np.outer(solved, solved) - cho_solve((root, True), np.eye(len(root))))
    shares = solve_triangular(factor, explained, lower=True, trans="T")  # K⁻¹ Cᵀ
    of_gram = -shares @ spread @ shares.T
    of_gram[np.diag_indices(count)] += JITTER * np.trace(of_gram) / count
    of_values = weighted @ (2 * spread @ shares.T)
    value = -0.5 * misfit @ misfit - np.sum(np.log(np.diag(root)))
    return float(value), [one + two for one, two in zip(pull(of_values), pull_gram(of_gram), strict=True)]


class Maximum(NamedTuple):
    """The hyper-parameters of a maximum, its log evidence with the log hyper-prior, and what it took."""

    parameters: Any
    value: float
    evaluations: int


def maximise(
    objective: Callable[..., Any],
    centre: Any,
    spread: Any,
    data: Any,
    *,
    start: Any = None,
    with_slopes: bool = False,
) -> Maximum:
    """Maximise objective(parameters, *data) + log hyper-prior by L-BFGS.

    The logarithms of the parameters have independent normal hyper-priors around `centre`.

    Parameters
    ----------
    objective : callable
        A function of parameters and data, written in JAX; with `with_slopes` in NumPy.
    centre : pytree
        Positive numbers, such as a kernel.
    spread : pytree
        Standard deviations of the hyper-priors, in the structure of `centre`; 0 holds a leaf.
    data : tuple
        Further arguments of the objective.
    start : pytree, optional
        Where to begin; by default the centre.
    with_slopes : bool, default=False
        Whether the objective gives a pair, its value and its slopes in the leaves of the parameters, in their order.
        Else JAX finds them.

    Returns
    -------
    Maximum
        The parameters, the value with the log hyper-prior, and the number of evaluations.
    """
    value_and_slopes = objective if with_slopes else functools.partial(_by_jax, objective)
    centre, spread, start = (_to_float64(tree) for tree in (centre, spread, centre if start is None else start))
    middles, structure = jax.tree.flatten(centre)
    scales = _flatten(
        [scale * np.ones_like(leaf) for leaf, scale in zip(middles, jax.tree.leaves(spread), strict=True)]
    )
    free = scales > 0
    moves = np.zeros(free.size)
    evaluations = 0

    def moved() -> list[Floats]:
        parts = np.split(moves, np.cumsum([leaf.size for leaf in middles])[:-1])
        return [leaf * np.exp(part.reshape(leaf.shape)) for leaf, part in zip(middles, parts, strict=True)]

    def negative(some: Floats) -> tuple[float, Floats]:
        nonlocal evaluations
        evaluations += 1
        moves[free] = some
        leaves = moved()
        value, slopes = value_and_slopes(jax.tree.unflatten(structure, leaves), *data)
        slope = _flatten([leaf * each for leaf, each in zip(leaves, slopes, strict=True)])[free]
        if not np.isfinite(value) or not np.all(np.isfinite(slope)):
            return 1e25, np.zeros_like(some)  # L-BFGS shortens its step
        return 0.5 * np.sum((some / scales[free]) ** 2) - value, some / scales[free] ** 2 - slope

    starts = zip(jax.tree.leaves(start), middles, strict=True)
    held = _flatten(
        [np.log(np.divide(leaf, middle, out=np.ones_like(middle), where=leaf != middle)) for leaf, middle in starts]
    )
    first = np.clip(held[free], -REACH, REACH)
    bounds = [(-REACH, REACH)] * len(first)
    optimum = optimize.minimize(
        negative, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40, "ftol": 1e-6}
    )
    moves[free] = optimum.x
    return Maximum(jax.tree.unflatten(structure, moved()), -float(optimum.fun), evaluations)


def _by_jax(objective: Callable[..., Any], parameters: Any, *data: Any) -> tuple[float, list[Floats]]:
    """The objective and its slopes in the leaves of the parameters, differentiated and compiled by JAX."""
    with jax.enable_x64(True):
        value, slopes = _differentiated(objective, parameters, data)
        return float(value), [np.asarray(leaf) for leaf in jax.tree.leaves(slopes)]


@eqx.filter_jit
def _differentiated(objective: Any, parameters: Any, data: Any) -> Any:
    return jax.value_and_grad(objective)(jax.tree.map(jnp.asarray, parameters), *data)


def _flatten(leaves: list[Floats]) -> Floats:
    return np.concatenate([np.ravel(leaf) for leaf in leaves])


def _to_float64(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), tree)
