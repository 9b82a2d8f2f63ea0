"""Random Coulomb matrices of QM7's molecules: their trials and features, the mean of a kernel, and regression with it.

For the square loss and f in the RKHS of k, explaining y by E[f(z) | x] is ridge regression with the kernel
K(x, x') = mean over draws z of x and z' of x' of k(z, z').
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dualembed import checks, kernels, spaces
from dualembed.data import qm7
from dualembed.data.qm7 import Molecules
from dualembed.experiments.experiment import TUNING_SEEDS
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearSpace

FOLDS = 5
NOISE = 1.0  # deviation of the noise on the rows' norms
TRAINING_DRAWS, TESTING_DRAWS = 10, 20  # of the stochastic methods
ROUNDS = 10  # over the training set
FEATURES = 2048  # random Fourier features of the Gaussian kernel, in place of an expansion in 57,320 centres
LANDMARKS = 1000  # of preconditioned SGD
CHUNK = 4096  # points whose features are computed at a time

TILE = 128  # molecules by as many, whose distances stay in a core's cache
UNROLLED = 6  # coordinates summed before a tile is written back


def draw_matrices(molecules: Molecules, draws: int, noise: float, seed: int) -> np.ndarray:
    """Random Coulomb matrices (n, draws, atoms (atoms + 1) / 2): the upper triangles, column after column.

    Draw number l has the same noise for every molecule, given to the atoms in the order of their rows' norms: like
    molecules get like draws, so that the mean of a kernel over few draws varies less from molecule to molecule. Of
    two draws in a row the second has the opposite noise of the first, which makes such a mean still steadier. The first
    ones are what `samplers.Orbit` of an `AtomPermutation` makes of sorted matrices, but for the rows of zeros that fill
    up a smaller molecule's matrix, which stay behind its atoms.
    """
    checks.count("draws", draws)
    checks.not_negative("noise", noise)
    matrices = sorted_matrices(molecules.coulomb)
    norms = np.linalg.norm(matrices, axis=2)
    atoms = norms.shape[1]
    column, row = np.tril_indices(atoms)
    drawn = np.empty((len(norms), draws, len(row)), dtype=np.float32)
    keys = jax.random.split(jax.random.key(seed), -(-draws // 2))
    for number in range(draws):
        shift = noise * (-1) ** number * np.asarray(jax.random.normal(keys[number // 2], (atoms,)))
        order = np.argsort(-np.where(norms > 0, norms + shift, -np.inf), axis=1, kind="stable")
        drawn[:, number] = reordered(matrices, order)[:, row, column]
    return drawn


def sorted_matrices(coulomb: np.ndarray) -> np.ndarray:
    """The matrices with their atoms sorted by the norms of their rows, the largest first."""
    return reordered(coulomb, np.argsort(-np.linalg.norm(coulomb, axis=2), axis=1, kind="stable"))


def reordered(coulomb: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The matrices (n, a, a) with rows and columns in the order (n, a)."""
    return coulomb[np.arange(len(coulomb))[:, None, None], order[:, :, None], order[:, None, :]]


def mean_kernels(drawn: np.ndarray, bandwidths: Sequence[float]) -> np.ndarray:
    """K (bandwidths, n, n): the mean of exp(-|z - z'|₁ / bandwidth) over all pairs of two rows' draws (n, draws, d).

    Molecules are taken by size, a tile of TILE by TILE pairs at a time: the coordinates beyond the larger of two
    molecules are zero in both and are left out, and of two tiles that mirror each other one is computed.
    """
    rows, draws, width = drawn.shape
    reach = width - np.argmax(np.any(drawn != 0, axis=1)[:, ::-1], axis=1)  # coordinates up to the last that is used
    order = np.argsort(reach, kind="stable")
    padding = -rows % TILE
    laid = np.pad(drawn[order], ((0, padding), (0, 0), (0, -width % UNROLLED)))
    blocks = jnp.asarray(laid.reshape(-1, TILE, draws, laid.shape[2]).transpose(0, 2, 3, 1))
    reaches = jnp.asarray(np.pad(reach[order], (0, padding)).reshape(-1, TILE).max(axis=1))
    scales = jnp.asarray(bandwidths, jnp.float32)
    total = np.empty((len(bandwidths), len(laid), len(laid)), dtype=np.float32)

    def fill(down: int) -> None:
        strip = np.asarray(_strip(blocks, reaches, scales, down))  # (blocks from `down` on, s, TILE, TILE)
        for across, tile in enumerate(strip[down:], start=down):
            here, there = slice(down * TILE, (down + 1) * TILE), slice(across * TILE, (across + 1) * TILE)
            total[:, here, there] = tile
            total[:, there, here] = tile.transpose(0, 2, 1)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a tile is too small for JAX to share among cores by itself
        list(pool.map(fill, range(len(blocks))))
    place = np.argsort(order)
    return total[:, place[:, None], place[None, :]]


@jax.jit
def _strip(blocks: jax.Array, reaches: jax.Array, scales: jax.Array, down: int) -> jax.Array:
    """Mean kernels (blocks, s, TILE, TILE) of block `down` with every block from it on; zero before."""
    draws = blocks.shape[1]

    def tile(across: jax.Array, strip: jax.Array) -> jax.Array:
        reach = jnp.maximum(reaches[down], reaches[across])

        def add(pair: jax.Array, total: jax.Array) -> jax.Array:
            distances = _distances(blocks[down, pair // draws], blocks[across, pair % draws], reach)
            return total + jnp.exp(-distances / scales[:, None, None])

        total = jax.lax.fori_loop(0, draws**2, add, jnp.zeros(strip.shape[1:], strip.dtype))
        return strip.at[across].set(total / draws**2)

    return jax.lax.fori_loop(down, len(blocks), tile, jnp.zeros((len(blocks), len(scales), TILE, TILE), blocks.dtype))


def _distances(left: jax.Array, right: jax.Array, reach: jax.Array) -> jax.Array:
    """Σ_j |left_j - right_j| of points (d, n) and (d, m) over the first `reach` coordinates."""

    def add(step: jax.Array, total: jax.Array) -> jax.Array:
        for j in range(UNROLLED):
            one, other = left[step * UNROLLED + j], right[step * UNROLLED + j]
            total = total + jnp.abs(one[:, None] - other[None, :])
        return total

    start = jnp.zeros((left.shape[1], right.shape[1]), left.dtype)
    return jax.lax.fori_loop(0, -(-reach // UNROLLED), add, start)


def ridge_errors(
    gram: np.ndarray, energy: np.ndarray, training: np.ndarray, *, testing: np.ndarray, penalty: float
) -> np.ndarray:
    """Predicted less true energies of the testing rows after ridge regression on the training rows, in float64.

    The training energies' mean is taken off first, and is not penalised.
    """
    ridged = gram[np.ix_(training, training)].astype(np.float64)
    ridged[np.diag_indices_from(ridged)] += penalty
    mean = energy[training].mean()
    factor = cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False)
    weights = cho_solve(factor, energy[training] - mean, check_finite=False)
    predicted: np.ndarray = gram[np.ix_(testing, training)].astype(np.float64) @ weights + mean
    return predicted - energy[testing]


class Split(NamedTuple):
    """So many molecules of each fold, the fold that is tested on, and a fold, if any, that is left out."""

    size: int
    tested: int
    hidden: int | None = None

    @property
    def learnt(self) -> list[int]:
        """The folds that are learnt from, beginning after the tested one."""
        others = [(self.tested + shift) % FOLDS for shift in range(1, FOLDS)]
        return [fold for fold in others if fold != self.hidden]

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers (training, testing) of the molecules."""
        folds = some_molecules(self.size).folds
        return np.concatenate([folds[fold] for fold in self.learnt]), folds[self.tested]


def split_of(seed: int, samples: int) -> Split:
    """The split of a seed: every fold in its turn; that of a sweep's seed is inside fold 0's training set."""
    size = _size(samples)
    return Split(size, 1 + seed % (FOLDS - 1), hidden=0) if seed in TUNING_SEEDS else Split(size, seed % FOLDS)


def _size(samples: int) -> int:
    """Molecules of a fold, so that the rounds over four of them make that many draws."""
    return max(2, samples // (ROUNDS * TRAINING_DRAWS * (FOLDS - 1)))


@lru_cache(maxsize=2)
def some_molecules(size: int) -> Molecules:
    """The first `size` molecules of each fold, or all."""
    whole = qm7.load()
    rows = whole.folds[:, :size]
    return Molecules(whole.coulomb[rows.ravel()], whole.energy[rows.ravel()], np.arange(rows.size).reshape(rows.shape))


@lru_cache(maxsize=2)
def draws_of(size: int, count: int) -> np.ndarray:
    """Draws (n, count, d) of those molecules."""
    return draw_matrices(some_molecules(size), count, NOISE, 0)


@lru_cache(maxsize=2)
def grams(size: int, draws: int, bandwidths: tuple[float, ...]) -> np.ndarray:
    """The mean kernels (bandwidths, n, n) of those molecules."""
    return mean_kernels(draws_of(size, draws), bandwidths)


class Features(NamedTuple):
    """Features of draws and sorted matrices to learn from, and mean ones of each molecule to test on."""

    learnt: jax.Array
    tested: jax.Array


Space = Callable[[float, np.ndarray], LinearSpace]  # (bandwidth, draws) -> the space


def waves(bandwidth: float, points: np.ndarray) -> LinearSpace:
    """Fourier features of a Gaussian kernel, its bandwidth in units of the median distance."""
    kernel = kernels.Gaussian(bandwidth * kernels.median_bandwidth(points))
    return spaces.Fourier(kernel, FEATURES, pairs=True, orthogonal=True)


def landmarks(bandwidth: float, points: np.ndarray) -> LinearSpace:
    """Landmarks of a Laplacian kernel."""
    return spaces.Nystrom(kernels.Laplacian(bandwidth), LANDMARKS)


@lru_cache(maxsize=3)
def features_of_draws(split: Split, space: Space, bandwidth: float) -> Features:
    """Features of the n·10 draws to learn from and then of the n sorted matrices; and what to test on."""
    training, testing = split.rows()
    both = draws_of(split.size, TRAINING_DRAWS + TESTING_DRAWS)
    width = both.shape[2]
    drawn = both[training, :TRAINING_DRAWS].reshape(-1, width)
    function = _features(space, bandwidth, drawn, seed=0)
    learnt = _computed(function, np.concatenate([drawn, _sorted(split)]))
    tested = _computed(function, both[testing, TRAINING_DRAWS:].reshape(-1, width))
    means = tested.reshape(len(testing), TESTING_DRAWS, -1).mean(axis=1)
    return Features(jnp.asarray(learnt), jnp.asarray(means))


@lru_cache(maxsize=3)
def features_of_molecules(split: Split, space: Space, bandwidth: float) -> jax.Array:
    """Features of the n sorted matrices, which name the molecules to the dual whatever the order of their atoms."""
    points = _sorted(split)
    return jnp.asarray(_computed(_features(space, bandwidth, points, seed=1), points))


def _sorted(split: Split) -> np.ndarray:
    chosen = some_molecules(split.size)
    return draw_matrices(chosen, 1, 0.0, 0)[split.rows()[0], 0]


def _features(space: Space, bandwidth: float, points: np.ndarray, *, seed: int) -> FeatureMap:
    """The space's feature map on these points."""
    some = points[np.random.default_rng(seed).permutation(len(points))[:CHUNK]]
    layout = Layout(jnp.asarray(some), steps=1, batch=1, per_sample=1, capacity=1)
    return space(bandwidth, some).feature_map(jax.random.key(seed), layout)


def _computed(function: FeatureMap, points: np.ndarray) -> np.ndarray:
    # Filled up to whole chunks, so that there is one shape to compile.
    laid = np.pad(points, ((0, -len(points) % CHUNK), (0, 0))).reshape(-1, CHUNK, points.shape[1])
    return np.concatenate([np.asarray(_applied(function, chunk)) for chunk in laid])[: len(points)]


@jax.jit
def _applied(function: FeatureMap, points: jax.Array) -> jax.Array:
    return function(points)


class Energies(NamedTuple):
    """Energies to learn from, in units of their own mean and deviation; and what prediction costs."""

    training: np.ndarray
    testing: np.ndarray

    @staticmethod
    def of(split: Split) -> Energies:
        """Those of a split, in kcal/mol."""
        energy = some_molecules(split.size).energy
        return Energies(*(energy[rows] for rows in split.rows()))

    def standard(self) -> np.ndarray:
        """Training energies of mean 0 and deviation 1."""
        return (self.training - self.training.mean()) / self.training.std()

    def errors(self, predicted: Any) -> tuple[float, float]:
        """Mean absolute and root mean square error in kcal/mol of standard predictions (n,) of the testing energies."""
        return both_errors(np.asarray(predicted) * self.training.std() + self.training.mean() - self.testing)


def both_errors(differences: np.ndarray) -> tuple[float, float]:
    """Their mean absolute value and root mean square."""
    return float(np.mean(np.abs(differences))), float(np.sqrt(np.mean(differences**2)))
