"""Simulated instrumental-variable problems y = f(x) + e, E[e | z] = 0, E[e | x] not zero, whose f is known.

The one- and two-dimensional designs are in the manner of Bennett, Kallus and Schnabel (2019); the demand design is that
of Hartford, Lewis, Leyton-Brown and Taddy (2017). Everything is NumPy in float64 and follows from the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dualembed import checks

TEST_ROWS = 1000


@dataclass(frozen=True)
class Design:
    """Samples x (n, dx), y (n,), z (n, dz), and the truth f to compare with: test_f (m,) at test_x (m, dx)."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    test_x: np.ndarray
    test_f: np.ndarray


Curve = Callable[[np.ndarray], np.ndarray]

CURVES: dict[str, Curve] = {
    "abs": np.abs,
    "linear": lambda x: x,
    "sin": np.sin,
    "step": lambda x: np.where(x < 0, 1.0, 2.5),
    "quadratic": lambda x: -1.5 * x + 0.9 * x**2,
    "cubic": lambda x: -1.5 * x + 0.9 * x**2 + x**3,
    "root": lambda x: np.sqrt(np.abs(x)),
    "band": lambda x: np.where(np.abs(x) < 0.75, 1.0, 0.0),
}
# What benchmarks/iv.py has always looked at; every curve has a design of either kind.
ONE_DIMENSIONAL = ("abs", "sin", "step")
TWO_DIMENSIONAL = ("abs", "linear", "sin", "step")


def one_dimensional(name: str, n: int, seed: int) -> Design:
    """x = 1.2 z + 0.8 u + 0.1 e and y = f(x) + 2 u + 0.1 e', all of z, u, e, e' standard normal; y standardised.

    >>> one_dimensional("sin", 100, 0).x.shape
    (100, 1)
    """
    curve = _curve(name)

    def draw(rng: np.random.Generator, rows: int) -> Design:
        z, u, e, noise = rng.standard_normal((4, rows))
        return _confounded(curve, 1.2 * z + 0.8 * u + 0.1 * e, u, noise, z[:, None])

    return _standardised(draw, n, seed)


def two_dimensional(name: str, n: int, seed: int) -> Design:
    """x = z_1 + u + 0.1 e and y = f(x) + 2 u + 0.1 e', z uniform on [-3, 3]², the rest standard normal; y standardised.

    The second instrument is irrelevant, as a user's may be.
    """
    curve = _curve(name)

    def draw(rng: np.random.Generator, rows: int) -> Design:
        z = rng.uniform(-3, 3, (rows, 2))
        u, e, noise = rng.standard_normal((3, rows))
        return _confounded(curve, z[:, 0] + u + 0.1 * e, u, noise, z)

    return _standardised(draw, n, seed)


def demand(n: int, seed: int, rho: float, *, standardised: bool = False) -> Design:
    """Airline demand: x = (price, time, group), z = (fuel cost, time, group), y = f(x) + e, ρ = corr(e, price noise).

    With ψ(t) = 2 [(t - 5)⁴/600 + exp(-4 (t - 5)²) + t/10 - 2], t uniform on (0, 10), s uniform on 1..7, c, v normal:

        p = 25 + (c + 3) ψ(t) + v,   f = 100 + (10 + p) s ψ(t) - 2 p,   e = ρ v + √(1 - ρ²) ξ

    `standardised` puts (f - 100 + 292.1) / 158 in the place of f, so that the noise is as large as the signal.
    The test points are the grid of 20 prices on [10, 25], 20 times on [0, 10] and the 7 groups.
    """
    checks.count("n", n)
    if not -1 <= rho <= 1:
        raise checks.InputError(f"rho must be a correlation, from -1 to 1, not {rho!r}")
    rng = np.random.default_rng(seed)
    s, t = rng.integers(1, 8, n).astype(float), rng.uniform(0, 10, n)
    c, v, own = rng.standard_normal((3, n))
    x = np.stack([25 + (c + 3) * season(t) + v, t, s], axis=1)
    grid = np.meshgrid(np.linspace(10, 25, 20), np.linspace(0, 10, 20), np.arange(1.0, 8.0), indexing="ij")
    test_x = np.stack([axis.ravel() for axis in grid], axis=1)
    f, test_f = demanded(x), demanded(test_x)
    if standardised:
        f, test_f = (f - 100 + 292.1) / 158, (test_f - 100 + 292.1) / 158
    y = f + rho * v + np.sqrt(1 - rho**2) * own
    return Design(x, y, np.stack([c, t, s], axis=1), test_x, test_f)


def logistic_ramp(n: int, seed: int) -> Design:
    """f = 1 / (1 + exp(-4 (x - 0.5))), with noise that grows with the instrument; y standardised.

    x = 0.9 z + 0.6 u + 0.2 e and y = f(x) + (0.2 + 0.3 |z|) (0.8 u + 0.6 e'), z uniform on [-2, 2], the rest normal.
    """

    def draw(rng: np.random.Generator, rows: int) -> Design:
        z = rng.uniform(-2, 2, rows)
        u, e, noise = rng.standard_normal((3, rows))
        x = 0.9 * z + 0.6 * u + 0.2 * e
        f = 1 / (1 + np.exp(-4 * (x - 0.5)))
        return Design(x[:, None], f + (0.2 + 0.3 * abs(z)) * (0.8 * u + 0.6 * noise), z[:, None], x[:, None], f)

    return _standardised(draw, n, seed)


def two_kinks(n: int, seed: int) -> Design:
    """f flat up to -0.5, rising with slope 1 up to 1.5, falling with slope 1 after that; the instrument is skewed.

    x = z + 0.6 u + 0.2 e and y = f(x) + 0.7 u + 0.3 e', z exponential with mean 1, less 1, the rest normal; y
    standardised.
    """

    def draw(rng: np.random.Generator, rows: int) -> Design:
        z = rng.exponential(1.0, rows) - 1
        u, e, noise = rng.standard_normal((3, rows))
        x = z + 0.6 * u + 0.2 * e
        f = np.maximum(x + 0.5, 0) - 2 * np.maximum(x - 1.5, 0)
        return Design(x[:, None], f + 0.7 * u + 0.3 * noise, z[:, None], x[:, None], f)

    return _standardised(draw, n, seed)


def exponential_rise(n: int, seed: int) -> Design:
    """f = exp(0.8 x), with two instruments that both matter and noise with heavy tails; y standardised.

    x = 0.8 z_1 + 0.5 z_2 + 0.5 u and y = f(x) + 0.7 u + 0.4 t, z normal, u and t of Student's law with 5 and 3 degrees
    of freedom.
    """

    def draw(rng: np.random.Generator, rows: int) -> Design:
        z = rng.standard_normal((rows, 2))
        u, tail = rng.standard_t(5, rows), rng.standard_t(3, rows)
        x = 0.8 * z[:, 0] + 0.5 * z[:, 1] + 0.5 * u
        f = np.exp(0.8 * x)
        return Design(x[:, None], f + 0.7 * u + 0.4 * tail, z, x[:, None], f)

    return _standardised(draw, n, seed)


# Fixed before any method was run on them, to be measured once when all else is settled.
HELD_OUT: dict[str, Callable[[int, int], Design]] = {
    "logistic ramp": logistic_ramp,
    "two kinks": two_kinks,
    "exponential rise": exponential_rise,
}


def season(t: np.ndarray) -> np.ndarray:
    """ψ(t), the price sensitivity over the year of the demand design."""
    return 2 * ((t - 5) ** 4 / 600 + np.exp(-4 * (t - 5) ** 2) + t / 10 - 2)


def demanded(x: np.ndarray) -> np.ndarray:
    """f(p, t, s) = 100 + (10 + p) s ψ(t) - 2 p."""
    p, t, s = x.T
    return 100 + (10 + p) * s * season(t) - 2 * p


def many_moments(n: int, r: int, seed: int) -> Design:
    """x = Σ_j z_j / (2 √r) + u and y = x + u + 0.1 e: linear, truth 1, r instruments that are weak one by one.

    Two-stage least squares in z has expectation close to 1 + (r/n) / (1/4 + r/n), because A and the noise share
    samples: 1.29 at r = 100 and 1.53 at r = 280 for n = 1,000. Plain regression gives 1.8.
    """
    checks.count("n", n)
    checks.count("r", r)
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, r))
    u, noise = rng.standard_normal((2, n))
    x = z.sum(axis=1) / (2 * np.sqrt(r)) + u
    test_x = np.sqrt(1.25) * rng.standard_normal((TEST_ROWS, 1))
    return Design(x[:, None], x + u + 0.1 * noise, z, test_x, test_x[:, 0])


def _curve(name: str) -> Curve:
    if name not in CURVES:
        raise checks.InputError(f"name must be one of {', '.join(CURVES)}, not {name!r}")
    return CURVES[name]


def _confounded(curve: Curve, x: np.ndarray, u: np.ndarray, noise: np.ndarray, z: np.ndarray) -> Design:
    """Samples with y = f(x) + 2 u + 0.1 noise, tested where they are."""
    return Design(x[:, None], curve(x) + 2 * u + 0.1 * noise, z, x[:, None], curve(x))


def _standardised(draw: Callable[[np.random.Generator, int], Design], n: int, seed: int) -> Design:
    """n samples, and f at fresh points of the same law, both in units of the sampled y: (· - mean) / deviation."""
    checks.count("n", n, at_least=2)
    rng = np.random.default_rng(seed)
    sample, test = draw(rng, n), draw(rng, TEST_ROWS)
    centre, scale = sample.y.mean(), sample.y.std()
    return replace(sample, y=(sample.y - centre) / scale, test_x=test.test_x, test_f=(test.test_f - centre) / scale)
