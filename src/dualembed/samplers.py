"""Samplers z ~ p(z | x): the variations of an input under which a prediction should not change.

A sampler is any function `sampler(key, x)` from a JAX key and one input x (d,) to one draw z; some are ready made here.
`draws` makes the column z of a data set with it, and `resampled` a source that draws anew at every visit of a row.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.sources import Dataset, Plan, PlannedSource, Sample

Draw = Callable[[jax.Array, jax.Array], jax.Array]
"""A function (key, x) -> z, x and z vectors."""

TILE = 1024  # inputs whose draws are made at one time


def _exact(value: Any) -> Any:
    """A hyper-parameter as `checks.real` has it, but several numbers stay in NumPy with all their digits.

    They take the precision of the inputs that they meet: draws are in float64 where closed forms are.
    """
    numbers = checks.real(value)
    return numbers if isinstance(value, jax.Array) or np.ndim(numbers) == 0 else np.asarray(value, dtype=np.float64)


class Sampler(eqx.Module):
    """A conditional distribution p(z | x) to draw from."""

    @abstractmethod
    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """One draw of z for one x.

        Parameters
        ----------
        key : array
            A JAX key.
        x : array of shape (d,)
            The input.

        Returns
        -------
        array of shape (dz,)
            The draw.
        """


class AdditiveNoise(Sampler):
    """Gaussian noise, z = x + scale ε.

    Parameters
    ----------
    scale : float or array of shape (d,)
        Standard deviation of the noise: one for all coordinates, or one for each.
    """

    scale: float | jax.Array | Floats = eqx.field(converter=_exact)

    def __check_init__(self) -> None:
        checks.not_negative("scale", self.scale)
        if np.ndim(self.scale) > 1:
            raise checks.InputError(
                f"scale must be one number or one for each coordinate, but its shape is {np.shape(self.scale)}"
            )

    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """x + scale ε."""
        if np.ndim(self.scale) == 1 and np.shape(self.scale) != x.shape:
            raise checks.InputError(f"scale has {np.shape(self.scale)[0]} values for inputs of shape {x.shape}")
        return x + jnp.asarray(self.scale, x.dtype) * jax.random.normal(key, x.shape, x.dtype)


class ImageShift(Sampler):
    """The image moved by whole pixels, up or down and left or right, each of -most..most equally likely.

    x has the image's rows one after another, with the channels of a pixel side by side.

    Parameters
    ----------
    height : int
        Height of the image in pixels.
    width : int
        Width of the image in pixels.
    most : int
        Largest move in pixels.
    wrap : bool, default=False
        Whether pixels that leave on one side come back on the other; otherwise 0 moves in.
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    most: int = eqx.field(static=True)
    wrap: bool = eqx.field(default=False, static=True)

    def __check_init__(self) -> None:
        for name in ("height", "width", "most"):
            checks.count(name, getattr(self, name), at_least=0 if name == "most" else 1)
        checks.instance("wrap", self.wrap, bool)
        if not self.wrap and self.most >= min(self.height, self.width):
            raise checks.InputError(
                f"most must be below the image's {self.height} x {self.width} pixels, not {self.most}, or nothing of "
                "it may be left; with wrap=True it may be more"
            )

    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """The image moved."""
        image = _image(x, self.height, self.width)
        moves = jax.random.randint(key, (2,), -self.most, self.most + 1)
        if self.wrap:
            return jnp.roll(image, moves, axis=(0, 1)).reshape(-1)
        framed = jnp.pad(image, ((self.most, self.most), (self.most, self.most), (0, 0)))
        start = (self.most - moves[0], self.most - moves[1], 0)
        return jax.lax.dynamic_slice(framed, start, image.shape).reshape(-1)


class ImageRotation(Sampler):
    """The image turned about its middle by an angle uniform in ±degrees, with bilinear interpolation and 0 outside.

    x is laid out as for `ImageShift`.

    Parameters
    ----------
    height : int
        Height of the image in pixels.
    width : int
        Width of the image in pixels.
    degrees : float, default=180.0
        Largest angle.
    """

    height: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    degrees: float | jax.Array = eqx.field(default=180.0, converter=checks.real)

    def __check_init__(self) -> None:
        checks.count("height", self.height)
        checks.count("width", self.width)
        checks.not_negative("degrees", self.degrees)
        checks.single("degrees", self.degrees)

    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """The image turned."""
        image = _image(x, self.height, self.width)
        angle = jnp.deg2rad(self.degrees) * jax.random.uniform(key, (), x.dtype, -1.0, 1.0)
        down, right = (self.height - 1) / 2, (self.width - 1) / 2
        row, column = jnp.meshgrid(jnp.arange(self.height) - down, jnp.arange(self.width) - right, indexing="ij")
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        # Each pixel asks where it came from, so the rotation is the inverse one.
        places = [cosine * row + sine * column + down, cosine * column - sine * row + right]
        turned = jax.vmap(lambda channel: map_coordinates(channel, places, order=1), in_axes=2, out_axes=2)(image)
        return turned.reshape(-1)


class AtomPermutation(Sampler):
    """A Coulomb matrix with its atoms in another order, rows and columns alike; x is the flattened matrix.

    Without `noise` every order is equally likely. With it atoms are sorted by the norms of their rows plus noise times
    standard Gaussian numbers, the largest first: random Coulomb matrices (Montavon et al. 2013).

    Parameters
    ----------
    atoms : int
        Number of atoms: the matrix is (atoms, atoms).
    noise : float, optional
        Standard deviation of what is added to the norms.
    """

    atoms: int = eqx.field(static=True)
    noise: float | jax.Array | None = eqx.field(default=None, converter=checks.real)

    def __check_init__(self) -> None:
        checks.count("atoms", self.atoms)
        if self.noise is not None:
            checks.not_negative("noise", self.noise, "leave it out for orders that are all equally likely")
            checks.single("noise", self.noise)

    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """The matrix reordered."""
        _check_size("a Coulomb matrix", x, self.atoms**2, f"{self.atoms} x {self.atoms}")
        matrix = x.reshape(self.atoms, self.atoms)
        if self.noise is None:
            order = jax.random.permutation(key, self.atoms)
        else:
            norms = jnp.linalg.norm(matrix, axis=1)
            order = jnp.argsort(-(norms + self.noise * jax.random.normal(key, norms.shape, norms.dtype)))
        return matrix[order][:, order].reshape(-1)


class Group(Sampler):
    """Random elements of a finite group of matrices, z = g x with every g equally likely.

    Parameters
    ----------
    matrices : array of shape (G, d, d)
        The elements of the group.
    """

    matrices: jax.Array | Floats = eqx.field(converter=_exact)

    def __check_init__(self) -> None:
        if checks.traced(self.matrices):
            return
        shape = checks.array("the matrices of a group", self.matrices).shape
        if len(shape) != 3 or shape[1] != shape[2]:
            raise checks.InputError(f"a group's matrices must have shape (elements, d, d), not {shape}")

    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """g x."""
        _check_size("an input of the group", x, self.matrices.shape[1], f"{self.matrices.shape[1]}")
        chosen = jax.random.randint(key, (), 0, self.matrices.shape[0])
        return jnp.matmul(jnp.asarray(self.matrices, x.dtype)[chosen], x, precision="highest")


class Rotation2D(Sampler):
    """A cloud of points in the plane turned about the origin by one angle, uniform in ±degrees.

    x is the cloud (points, 2) flattened. To turn it about its own middle, centre it first.

    Parameters
    ----------
    degrees : float, default=180.0
        Largest angle.
    """

    degrees: float | jax.Array = eqx.field(default=180.0, converter=checks.real)

    def __check_init__(self) -> None:
        checks.not_negative("degrees", self.degrees)
        checks.single("degrees", self.degrees)

    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """The cloud turned."""
        cloud = _cloud(x, 2)
        angle = jnp.deg2rad(self.degrees) * jax.random.uniform(key, (), x.dtype, -1.0, 1.0)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        return jnp.stack(
            [cosine * cloud[:, 0] - sine * cloud[:, 1], sine * cloud[:, 0] + cosine * cloud[:, 1]], axis=1
        ).reshape(-1)


class Rotation3D(Sampler):
    """A cloud of points in space turned about the origin by one uniform random rotation.

    x is the cloud (points, 3) flattened. To turn it about its own middle, centre it first.
    """

    def __call__(self, key: jax.Array, x: jax.Array) -> jax.Array:
        """The cloud turned."""
        # A quaternion (w, a) uniform on the sphere is a uniform rotation, v + 2 a × (a × v + w v).
        quaternion = jax.random.normal(key, (4,), x.dtype)
        quaternion = quaternion / jnp.linalg.norm(quaternion)
        cloud, axis = _cloud(x, 3), quaternion[None, 1:]
        return (cloud + 2 * jnp.cross(axis, jnp.cross(axis, cloud) + quaternion[0] * cloud)).reshape(-1)


class Orbit(eqx.Module):
    """The images of points under draws of a sampler that are the same for all points.

    A group for `kernels.HaarIntegral` where elements are no matrices, such as shifts of images.

    Parameters
    ----------
    key : array or int
        A JAX key or a seed, which fixes the draws.
    sampler : callable
        A function (key, x) -> z, such as a `Sampler`.
    count : int
        Number of draws.

    Examples
    --------
    >>> Orbit(jax.random.key(0), AdditiveNoise(0.1), 4)(jnp.zeros((3, 2))).shape
    (3, 4, 2)
    """

    keys: jax.Array
    sampler: Draw

    def __init__(self, key: jax.Array | int, sampler: Draw, count: int) -> None:
        checks.count("count", count)
        self.keys, self.sampler = jax.random.split(key_of(key), count), _callable(sampler)

    def __call__(self, xs: ArrayLike) -> jax.Array:
        """The images of points.

        Parameters
        ----------
        xs : array of shape (n, d)
            Points.

        Returns
        -------
        array of shape (n, count, d)
            Their images, in JAX's default precision.
        """
        one = jax.vmap(self.sampler, in_axes=(0, None))
        return jax.vmap(one, in_axes=(None, 0))(self.keys, jnp.asarray(xs, dtype=float))


def draws(key: jax.Array | int, sampler: Draw, xs: ArrayLike, count: int = 1) -> Floats:
    """Draw z from p(z | x) for each input.

    Parameters
    ----------
    key : array or int
        A JAX key or a seed.
    sampler : callable
        A function (key, x) -> z, such as a `Sampler`.
    xs : array of shape (n, d) or (n,)
        Inputs.
    count : int, default=1
        Draws for each input.

    Returns
    -------
    array of shape (n, count, dz)
        The draws in float64, since inputs such as time stamps have more than seven digits.

    Examples
    --------
    >>> z = draws(jax.random.key(0), AdditiveNoise(0.1), [[0.0, 1.0], [2.0, 3.0]], 5)
    >>> z.shape
    (2, 5, 2)
    """
    checks.count("count", count)
    sampler, key = _callable(sampler), key_of(key)
    with jax.enable_x64(True):
        xs = _rows(checks.array("xs", xs, ndim=(1, 2)))
        _check_draw(sampler, key, xs[0])
        rows = xs.shape[0]
        # Powers of two, as for functions: a handful of compiled shapes serves every number of rows.
        padded = jnp.pad(xs, ((0, max(16, 1 << (rows - 1).bit_length()) - rows), (0, 0)), mode="edge")
        drawn = _tiled(sampler, jax.random.split(key, padded.shape[0]), padded, count)[:rows]
    return np.asarray(drawn, dtype=np.float64)


@functools.partial(jax.jit, static_argnames="count")
def _tiled(sampler: Draw, keys: jax.Array, xs: jax.Array, count: int) -> jax.Array:
    return jax.lax.map(lambda row: _several(sampler, row[0], row[1], count), (keys, xs), batch_size=TILE)


def _several(sampler: Draw, key: jax.Array, x: jax.Array, count: int) -> jax.Array:
    return jax.vmap(sampler, in_axes=(0, None))(jax.random.split(key, count), x)


def resampled(dataset: Dataset, sampler: Draw, draws: int = 1) -> Resampled:
    """A source that draws z anew at every visit of a row (x, y).

    Parameters
    ----------
    dataset : Dataset
        Columns x and y.
    sampler : callable
        A function (key, x) -> z, such as a `Sampler`.
    draws : int, default=1
        Draws at each visit.

    Returns
    -------
    Resampled
        The source.

    Examples
    --------
    >>> source = resampled(Dataset(x=[[0.0], [1.0]], y=[1.0, 2.0]), AdditiveNoise(0.1))
    >>> source.pilot(jax.random.key(0), 2)["z"].shape
    (2, 1)
    """
    return Resampled(dataset, sampler, draws)


class Resampled(PlannedSource):
    """Rows of a finite data set, visited as those of a `Dataset`, with z ~ p(z | x) drawn anew at each visit.

    The column z has shape (B, dz), or (B, M, dz) for M > 1 draws, in JAX's default precision. Each visit brings new
    points and takes its own slot.

    Parameters
    ----------
    dataset : Dataset
        Columns x and y.
    sampler : callable
        A function (key, x) -> z, such as a `Sampler`.
    count : int, default=1
        Draws at each visit.
    """

    dataset: Dataset
    sampler: Draw
    count: int = eqx.field(static=True)

    def __init__(self, dataset: Dataset, sampler: Draw, count: int = 1) -> None:
        checks.instance("dataset", dataset, Dataset, "such as sources.Dataset(x=x, y=y)")
        checks.count("draws", count)
        if "x" not in dataset.table or "z" in dataset.table:
            raise checks.InputError(
                f"resampling draws the column z from a column x, but the data set has {sorted(dataset.table)}; "
                "give x and y alone"
            )
        self.dataset, self.sampler, self.count = dataset, _callable(sampler), count
        _check_draw(self.sampler, jax.random.key(0), _rows(dataset.columns["x"])[0])

    def pilot(self, key: jax.Array, size: int) -> Sample:
        """At most `size` distinct rows, with draws, checked to be finite."""
        rows_key, draws_key = jax.random.split(key)
        sample = with_draws(draws_key, self.sampler, self.dataset.pilot(rows_key, size), self.count)
        return {**sample, "z": checks.array("z as drawn by the sampler", sample["z"])}

    def capacity(self, *, batch: int, steps: int) -> int:
        """Every visit is new."""
        return batch * steps

    def plan(self, key: jax.Array, *, batch: int, steps: int) -> ResampledPlan:
        """The rows in the order of the data set's own plan; the draws of batch i from the key folded with i."""
        order_key, draws_key = jax.random.split(key)
        rows = self.dataset.plan(order_key, batch=batch, steps=steps)
        return ResampledPlan(rows, self.sampler, draws_key, self.count)


class ResampledPlan(Plan):
    """The rows of every batch, and what their z are drawn with.

    Attributes
    ----------
    rows : Plan
        The rows of each batch.
    sampler : callable
        A function (key, x) -> z.
    key : array
        A JAX key; batch i draws from the key folded with i.
    count : int
        Draws at each visit.
    """

    rows: Plan
    sampler: Draw
    key: jax.Array
    count: int = eqx.field(static=True)

    def batch(self, step: jax.Array) -> tuple[Sample, jax.Array]:
        """The rows of this batch with fresh draws, in fresh slots."""
        sample, slots = self.rows.batch(step)
        sample = with_draws(jax.random.fold_in(self.key, step), self.sampler, sample, self.count)
        return sample, step * slots.shape[0] + jnp.arange(slots.shape[0])


def with_draws(key: jax.Array, sampler: Draw, sample: Sample, count: int) -> Sample:
    """The sample with a new column z of draws for its x.

    Parameters
    ----------
    key : array
        A JAX key.
    sampler : callable
        A function (key, x) -> z, such as a `Sampler`.
    sample : dict of arrays
        Columns, among them x of shape (B, d).
    count : int
        Draws for each x.

    Returns
    -------
    dict of arrays
        The columns with z of shape (B, dz), or (B, count, dz) if count > 1.
    """
    xs = _rows(sample["x"])
    keys = jax.random.split(key, xs.shape[0])
    drawn = jax.vmap(lambda key, x: _several(sampler, key, x, count))(keys, xs)
    return {**sample, "z": drawn[:, 0] if count == 1 else drawn}


def key_of(key: jax.Array | int) -> jax.Array:
    """A JAX key: the one given, or one made from a seed.

    Parameters
    ----------
    key : array or int
        A JAX key or a seed.

    Returns
    -------
    array
        The JAX key.
    """
    if isinstance(key, jax.Array):
        return key
    checks.count("key", key, at_least=0)
    return jax.random.key(key)


def _callable(sampler: Any) -> Any:
    """The sampler as a pytree: a module is one, a plain function is wrapped to be one without leaves."""
    if not callable(sampler):
        raise checks.InputError(f"a sampler must be a function of a key and an input that draws z, not {sampler!r}")
    return sampler if isinstance(sampler, (eqx.Module, jax.tree_util.Partial)) else jax.tree_util.Partial(sampler)


def _check_draw(sampler: Any, key: jax.Array, x: jax.Array) -> None:
    """Raise one clear sentence when a draw fails or is no vector."""
    try:
        shape = jax.eval_shape(sampler, key, x).shape
    except checks.InputError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise checks.InputError(f"the sampler failed on an input of shape {x.shape}: {reason}") from error
    if len(shape) != 1:
        raise checks.InputError(f"a sampler must draw a z of shape (dimension,), but gave shape {shape}")


def _rows(xs: jax.Array) -> jax.Array:
    return xs[:, None] if xs.ndim == 1 else xs


def _image(x: jax.Array, height: int, width: int) -> jax.Array:
    """The pixels (height, width, channels) of a flattened image."""
    if x.size % (height * width):
        raise checks.InputError(
            f"an image of {height} x {width} pixels needs {height * width} numbers for each channel, not {x.size}"
        )
    return x.reshape(height, width, -1)


def _cloud(x: jax.Array, dimension: int) -> jax.Array:
    """The points (n, dimension) of a flattened cloud."""
    if x.size % dimension:
        raise checks.InputError(f"a cloud of points with {dimension} coordinates cannot have {x.size} numbers")
    return x.reshape(-1, dimension)


def _check_size(what: str, x: jax.Array, size: int, words: str) -> None:
    if x.shape != (size,):
        raise checks.InputError(f"{what} must have {words} numbers in a row, but its shape is {x.shape}")
