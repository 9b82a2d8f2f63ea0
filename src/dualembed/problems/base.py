"""The one form of every problem: min over f of E[loss_y(E[moment(f) | context])], moment affine in f."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.losses import Loss, Square
from dualembed.sources import Dataset, Sample, Source

TILE = 4096  # rows whose terms are held at one time
FEWEST = 64  # rows, to which fewer are padded before anything is made of them in JAX


class Terms(eqx.Module):
    """What a batch of B samples says about f: moment = Σ_k weights_k f(points_k) + offset, in a context, with a target.

    Parameters
    ----------
    points : array of shape (B, K, d)
        Points at which f enters.
    weights : array of shape (B, K)
        Weights of f there.
    offset : array of shape (B,)
        What the moment has besides f.
    context : array of shape (B, c)
        What the conditional mean is given.
    target : array of shape (B,)
        Targets y of the loss.
    known : tuple of bool, default=()
        For each of the K points, whether the context determines weights_k f(points_k), as it does V(s) given s.
    offset_known : bool, default=False
        Whether the context determines the offset. The honest score uses both.
    actions : int, default=0
        How many of the last coordinates of a point are an action's.
    mass : array of shape (B,), optional
        How much each sample counts in means; all alike where it is left out. The sum of the masses of a whole data set
        is how many rows they are worth where it is that of their squares (`normalised_mass`).
    ways : array of shape (B, K + 2), optional
        Targets that were themselves made of a fit: of one to all rows, which are `target`, of those without each of K
        left-out groups of rows, and of one that is debiased. The same of the solution are then made of its own each.
    """

    points: AnyArray
    weights: AnyArray
    offset: AnyArray
    context: AnyArray
    target: AnyArray
    known: tuple[bool, ...] = eqx.field(default=(), static=True)
    offset_known: bool = eqx.field(default=False, static=True)
    actions: int = eqx.field(default=0, static=True)
    mass: AnyArray | None = None
    ways: AnyArray | None = None

    def moment(self, values: AnyArray) -> AnyArray:
        """The moments Σ_k weights_k values_k + offset.

        Parameters
        ----------
        values : array of shape (B, K)
            Values of f at the points.

        Returns
        -------
        array of shape (B,)
            Moments.
        """
        return (self.weights * values).sum(axis=1) + self.offset

    def check(self) -> None:
        """Check that the shapes belong together.

        Raises
        ------
        InputError
            If they do not.
        """
        if self.points.ndim != 3:
            raise checks.InputError(
                f"Terms.points must have shape (batch, points, dimension), but has {self.points.shape}; "
                "a single point per sample is points[:, None, :]"
            )
        batch, count, _ = self.points.shape
        wanted = {"weights": (batch, count), "offset": (batch,), "target": (batch,)}
        wanted |= {} if self.mass is None else {"mass": (batch,)}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise checks.InputError(f"Terms.{name} must have shape {shape}, but has {getattr(self, name).shape}")
        if self.context.ndim != 2 or self.context.shape[0] != batch:
            raise checks.InputError(f"Terms.context must have shape ({batch}, dimension), but has {self.context.shape}")
        if self.known and len(self.known) != count:
            raise checks.InputError(f"Terms.known must say yes or no for each of the {count} points, not {self.known}")


class Problem(eqx.Module):
    """Samples, a loss, and what each sample says about f.

    Parameters
    ----------
    source : Source
        Where samples come from.
    loss : Loss
        The loss of the conditional mean of the moment.
    """

    source: eqx.AbstractVar[Source]
    loss: eqx.AbstractVar[Loss]
    positive: ClassVar[bool] = False  # whether f is known to be above zero, so that errors of it are ratios
    unbounded: ClassVar[bool] = False  # whether f grows without bounds as a process gets slow, which large ridges hide

    @abstractmethod
    def terms(self, sample: Sample) -> Terms:
        """The terms of a batch, each row's from its own row alone: batches may be cut, mixed or padded.

        Parameters
        ----------
        sample : dict of arrays
            Columns.

        Returns
        -------
        Terms
            Points, weights, offsets, contexts and targets.
        """


class Moment(Problem):
    """A problem of your own: any function from a batch of samples to `Terms`.

    Parameters
    ----------
    source : Source
        Where samples come from.
    function : callable
        A function from columns (a dictionary of arrays) to `Terms`, written in JAX.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.

    Examples
    --------
    >>> from dualembed.sources import Dataset
    >>> data = Dataset(x=[0.0, 1.0], z=[0.1, 0.9], y=[1.0, 2.0])
    >>> def instrument(sample):
    ...     zeros = jnp.zeros_like(sample["y"])
    ...     return Terms(sample["x"][:, None, None], jnp.ones_like(sample["y"])[:, None], zeros,
    ...                  sample["z"][:, None], sample["y"])
    >>> Moment(data, instrument).terms(data.columns).points.shape
    (2, 1, 1)
    """

    source: Source
    function: Callable[[Sample], Terms]
    loss: Loss

    def __init__(self, source: Source, function: Callable[[Sample], Terms], loss: Loss | None = None) -> None:
        self.source = source
        self.function = function if isinstance(function, eqx.Module) else jax.tree_util.Partial(function)
        self.loss = Square() if loss is None else loss

    def terms(self, sample: Sample) -> Terms:
        """What the user's function says."""
        return self.function(sample)


def finite_data(problem: Problem, otherwise: str = "") -> Dataset:
    """The data set that the samples are rows of; where they are drawn on demand, raise what `otherwise` says."""
    if not isinstance(problem.source, Dataset):
        raise checks.InputError(
            otherwise or "a closed form needs a finite data set; give sample, or use a Dataset as the source"
        )
    return problem.source


def checked_columns(problem: Problem, example: str) -> Sample | None:
    """The columns of a finite data set, once terms could be made of them; None for samples drawn on demand."""
    checks.instance("source", problem.source, Source, f"such as sources.Dataset({example})")
    checks.instance("loss", problem.loss, Loss, "such as losses.Square()")
    if not isinstance(problem.source, Dataset):
        return None
    problem.terms(problem.source.table)
    return problem.source.table


def with_rows(problem: Problem, rows: AnyArray) -> Problem:
    """The same problem on some rows of its finite data set, by their numbers or marks, in the order given."""
    table = finite_data(problem, "rows are those of a finite data set; use sources.Dataset as the source").table
    some = Dataset(**{name: column[rows] for name, column in table.items()})
    smaller: Problem = eqx.tree_at(lambda each: each.source, problem, some)
    return smaller


def iter_terms(problem: Problem, sample: Sample | None = None) -> Iterator[Terms]:
    """The terms of the samples (by default the whole finite data set) in float64 NumPy, tile by tile."""
    if sample is None:
        sample = finite_data(problem).table
    rows = len(next(iter(sample.values())))
    for start in range(0, rows, TILE):
        tile = {name: np.asarray(column[start : start + TILE], dtype=np.float64) for name, column in sample.items()}
        with jax.enable_x64(True):
            yield terms_numpy(problem, tile)


def read_terms(problem: Problem) -> Terms:
    """The terms of the whole finite data set in float64 NumPy, as one."""
    tiles = list(iter_terms(problem))
    return jax.tree.map(lambda *parts: np.concatenate(parts), *tiles)


def terms_numpy(problem: Problem, sample: Sample) -> Terms:
    """The terms of float64 NumPy columns, as NumPy arrays; to be called under `jax.enable_x64(True)`.

    A problem of the user's own may be written in JAX. For it the rows are padded with copies of the first: for every
    new number of rows JAX would compile each operation of the terms again, and it never gives compiled code back.
    """
    if not isinstance(problem, Moment):
        return jax.tree.map(np.asarray, problem.terms(sample))
    rows = len(next(iter(sample.values())))
    more = np.zeros(padding(rows), dtype=int)
    size = rows + len(more)
    padded = {name: jax.device_put(np.concatenate([column, column[more]])) for name, column in sample.items()}

    def own(leaf: Any) -> Floats:
        array = np.asarray(leaf)
        return array[:rows] if array.shape[:1] == (size,) else array  # other shapes are for others to refuse

    return jax.tree.map(own, problem.terms(padded))


def padding(rows: int) -> int:
    """How many rows to add, so that data sets of similar sizes share compiled code: up to 2^k or 3 · 2^k of them."""
    power = max(FEWEST, 1 << (rows - 1).bit_length())
    return (3 * power // 4 if power > FEWEST and rows <= 3 * power // 4 else power) - rows


def require(problem: str, sample: Sample, *names: str) -> None:
    """Raise one clear sentence unless the sample has every column the problem needs."""
    missing = [name for name in names if name not in sample]
    if missing:
        wanted = ", ".join(names[:-1]) + f" and {names[-1]}"
        raise checks.InputError(
            f"{problem} needs the columns {wanted}; {', '.join(missing)} missing from {sorted(sample)}"
        )


def library(*values: Any) -> Any:
    """NumPy where the values, or those of a sample, are its arrays or plain numbers, and jax.numpy for all others.

    Closed forms ask for the terms of NumPy columns, and get them without a trace or a compilation.
    """
    leaves = [leaf for value in values for leaf in (value.values() if isinstance(value, dict) else (value,))]
    return np if all(isinstance(leaf, (np.ndarray, np.generic, float)) for leaf in leaves) else jnp


def vector_of(name: str, value: ArrayLike) -> AnyArray:
    """An array of shape (B,)."""
    array = library(value).asarray(value)
    if array.ndim != 1:
        raise checks.InputError(f"{name} must have shape (rows,), but has {array.shape}")
    return array


def columns_of(name: str, value: ArrayLike) -> AnyArray:
    """An array of shape (B,) or (B, d) as (B, d)."""
    array = library(value).asarray(value)
    if array.ndim == 1:
        return array[:, None]
    if array.ndim != 2:
        raise checks.InputError(f"{name} must have shape (rows,) or (rows, dimension), but has {array.shape}")
    return array


def states_of(problem: str, sample: Sample, *needed: str) -> tuple[AnyArray, AnyArray]:
    """(state, next_state), both (B, d), in a sample that has every column the problem needs."""
    require(problem, sample, "state", *needed, "next_state")
    given = [np.shape(sample[name]) for name in ("state", "next_state")]
    if given[0] != given[1]:
        raise checks.InputError(f"state and next_state must have the same shape, but have {given[0]} and {given[1]}")
    return columns_of("state", sample["state"]), columns_of("next_state", sample["next_state"])


def mass_of(sample: Sample) -> AnyArray | None:
    """How much each row counts (B,); None where all count alike."""
    return vector_of("mass", sample["mass"]) if "mass" in sample else None


def normalised_mass(weights: Floats) -> Floats:
    """Weights (n,) scaled such that their sum and the sum of their squares are how many rows they are worth (Kish).

    Then Σ m φ e / Σ m has the variance σ² E[φ²] / Σ m where weights say nothing of the noise e: sums of masses take the
    place of numbers of rows everywhere.

    >>> float(normalised_mass(np.array([1.0, 1.0, 0.0, 0.0])).sum())
    2.0
    """
    relative = weights / weights.max()  # squares of very large or small numbers would leave the range
    return np.asarray(relative * (relative.sum() / np.sum(relative**2)))


def optional(sample: Sample, name: str, default: float) -> AnyArray:
    """The column (B,), or as many defaults."""
    rows = np.shape(sample["state"])[0]
    xp = library(sample)
    return xp.asarray(sample[name]) if name in sample else xp.full(rows, default, dtype=float)
