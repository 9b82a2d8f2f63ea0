"""Where samples come from: a finite data set, a simulator of fresh samples, or a stream of batches.

A sample is a dictionary of arrays that share their first axis. A source lays out a run as a `Plan`: a pytree
from which the compiled loop takes batch i, together with the slot each sample keeps in a growing expansion.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.deprecation import renamed

Sample = Mapping[str, AnyArray]
Span = tuple["Plan", int, int]


class Plan(eqx.Module):
    """The batches of a run, or of a stretch of it, as something a compiled loop can index."""

    @abstractmethod
    def batch(self, step: jax.Array) -> tuple[Sample, jax.Array]:
        """One batch.

        Parameters
        ----------
        step : array
            Number of the batch, counted from 0.

        Returns
        -------
        sample : dict of arrays
            Columns, each with B rows.
        slots : array of shape (B,)
            Where each sample keeps its centre in a growing expansion.
        """


class Source(eqx.Module):
    """A supply of samples."""

    @abstractmethod
    def pilot(self, key: jax.Array, size: int) -> Sample:
        """A few samples, to learn shapes from and to place landmarks on.

        Parameters
        ----------
        key : array
            A JAX key.
        size : int
            How many at most.

        Returns
        -------
        dict of arrays
            Columns.
        """

    @abstractmethod
    def capacity(self, *, batch: int, steps: int) -> int:
        """How many distinct slots a run needs.

        Parameters
        ----------
        batch : int
            Samples per step.
        steps : int
            Number of steps.

        Returns
        -------
        int
            Number of slots.
        """

    @abstractmethod
    def spans(self, key: jax.Array, *, batch: int, marks: Sequence[int]) -> Iterator[Span]:
        """The run in stretches between consecutive marks; it ends early when samples run out.

        Parameters
        ----------
        key : array
            A JAX key.
        batch : int
            Samples per step.
        marks : sequence of int
            Steps at which stretches begin and end, from 0.

        Yields
        ------
        plan : Plan
            Batches of the stretch.
        start : int
            Its first step.
        stop : int
            The step after its last.
        """


class PlannedSource(Source):
    """A source that knows its whole run in advance, so the run can be jitted and vmapped as one loop."""

    @abstractmethod
    def plan(self, key: jax.Array, *, batch: int, steps: int) -> Plan:
        """The batches of the whole run.

        Parameters
        ----------
        key : array
            A JAX key.
        batch : int
            Samples per step.
        steps : int
            Number of steps.

        Returns
        -------
        Plan
            The batches.
        """

    def spans(self, key: jax.Array, *, batch: int, marks: Sequence[int]) -> Iterator[Span]:
        """The same plan for every stretch."""
        plan = self.plan(key, batch=batch, steps=marks[-1])
        for start, stop in itertools.pairwise(marks):
            yield plan, start, stop


class Dataset(PlannedSource):
    """A finite data set, visited in a new random order on every pass.

    Parameters
    ----------
    **columns : array
        Columns by name, each of shape (n,) or (n, ...), such as x, y and z. They are kept in float64.

    Attributes
    ----------
    table : dict of arrays
        The columns, as NumPy arrays in float64.

    Examples
    --------
    >>> Dataset(x=[[0.0], [1.0]], y=[1.0, 2.0]).rows
    2
    """

    table: Sample

    def __init__(self, **columns: ArrayLike) -> None:
        if not columns:
            raise checks.InputError("a Dataset needs at least one column, such as Dataset(x=..., y=..., z=...)")
        self.table = {name: _as_column(name, column) for name, column in columns.items()}
        lengths = {name: column.shape[0] if column.ndim else 0 for name, column in self.table.items()}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            raise checks.InputError(f"the columns of a Dataset need equally many rows, but have {lengths}")

    @property
    def rows(self) -> int:
        """The number of samples."""
        return next(iter(self.table.values())).shape[0]

    def order(self, labels: np.ndarray | None = None) -> np.ndarray:
        """Sort the rows by what they say, so that the order they come in does not matter.

        Parameters
        ----------
        labels : array of shape (n,), optional
            Labels of rows, which decide among rows that say the same.

        Returns
        -------
        array of shape (n,)
            The numbers of the rows in that order.
        """
        columns = [column.reshape(self.rows, -1) for _, column in sorted(self.table.items())]
        keys = [part for column in columns for part in column.T]
        return np.lexsort(keys if labels is None else [np.unique(labels, return_inverse=True)[1], *keys])

    @property
    def columns(self) -> Sample:
        """All rows as JAX arrays of the precision in force."""
        return {name: jnp.asarray(column, dtype=float) for name, column in self.table.items()}

    def pilot(self, key: jax.Array, size: int) -> Sample:
        """At most `size` distinct rows, drawn at random."""
        if size >= self.rows:
            return self.columns
        chosen = jax.random.permutation(key, self.rows)[:size]
        return jax.tree.map(lambda column: column[chosen], self.columns)

    def capacity(self, *, batch: int, steps: int) -> int:
        """One slot a row, fewer when the run ends within the first pass."""
        return min(self.rows, batch * steps)

    def plan(self, key: jax.Array, *, batch: int, steps: int) -> DatasetPlan:
        """Passes over the rows, each in its own order; a batch may straddle two passes."""
        passes = -(-batch * steps // self.rows)
        orders = jax.vmap(lambda k: jax.random.permutation(k, self.rows))(jax.random.split(key, passes))
        order = orders.reshape(-1)[: batch * steps].reshape(steps, batch)
        # Slots are numbered by the first visit, so that the occupied ones are always a prefix.
        first_visit = jnp.zeros(self.rows, dtype=order.dtype).at[orders[0]].set(jnp.arange(self.rows))
        return DatasetPlan(self.columns, order, first_visit)


def _as_column(name: str, column: ArrayLike) -> AnyArray:
    """The column, checked, with all its digits: as NumPy float64 on the host, unless it is being traced."""
    checked = checks.array(name, column)
    return checked if checks.traced(checked) else np.asarray(column, dtype=np.float64)


class DatasetPlan(Plan):
    """The row numbers of every batch, and the slot of every row.

    Attributes
    ----------
    columns : dict of arrays
        All rows.
    order : array of shape (steps, B)
        Row numbers of each batch.
    slots : array of shape (n,)
        Slot of each row.
    """

    columns: Sample
    order: jax.Array
    slots: jax.Array

    def batch(self, step: jax.Array) -> tuple[Sample, jax.Array]:
        """The rows of this batch, gathered."""
        rows = self.order[step]
        return jax.tree.map(lambda column: column[rows], self.columns), self.slots[rows]


class Simulator(PlannedSource):
    """Endless fresh samples from a function.

    Parameters
    ----------
    draw : callable
        Function of a JAX key that returns one sample, a dictionary of arrays.

    Examples
    --------
    >>> def draw(key):
    ...     x, noise = jax.random.normal(key, (2,))
    ...     return {"x": x, "z": x + 0.1 * noise}
    >>> Simulator(draw).pilot(jax.random.key(0), 5)["z"].shape
    (5,)
    """

    draw: Callable[[jax.Array], Sample]

    def __init__(self, draw: Callable[[jax.Array], Sample]) -> None:
        if not callable(draw):
            raise checks.InputError(f"draw must be a function of a key that returns one sample, not {draw!r}")
        # A plain function is wrapped so that it is a pytree without leaves; a callable module already is one.
        self.draw = draw if isinstance(draw, eqx.Module) else jax.tree_util.Partial(draw)

    def pilot(self, key: jax.Array, size: int) -> Sample:
        """`size` fresh samples, checked to be finite."""
        one = self.draw(key)
        checks.instance("what draw(key) returns", one, dict, "such as {'x': ..., 'y': ..., 'z': ...}")
        sample = SimulatorPlan(self.draw, key, size).batch(jnp.asarray(0))[0]
        sample = {name: checks.array(f"{name} as drawn by the simulator", column) for name, column in sample.items()}
        if (
            not checks.traced(sample)
            and size > 1
            and all(np.ptp(column, axis=0).max() == 0 for column in sample.values())
        ):
            raise checks.InputError("every sample of the simulator is the same; draw from the key it is given")
        return sample

    def capacity(self, *, batch: int, steps: int) -> int:
        """Every sample is new."""
        return batch * steps

    def plan(self, key: jax.Array, *, batch: int, steps: int) -> SimulatorPlan:
        """Batch i is drawn from the key folded with i."""
        return SimulatorPlan(self.draw, key, batch)


class SimulatorPlan(Plan):
    """Batches drawn on demand from their step number.

    Attributes
    ----------
    draw : callable
        Function of a JAX key that returns one sample.
    key : array
        A JAX key; batch i is drawn from the key folded with i.
    size : int
        Samples per batch.
    """

    draw: Callable[[jax.Array], Sample]
    key: jax.Array
    size: int = eqx.field(static=True)

    def batch(self, step: jax.Array) -> tuple[Sample, jax.Array]:
        """Fresh samples in fresh slots."""
        keys = jax.random.split(jax.random.fold_in(self.key, step), self.size)
        sample = jax.vmap(self.draw)(keys)
        sample = {name: jnp.asarray(column, dtype=float) for name, column in sample.items()}
        return sample, step * self.size + jnp.arange(self.size)


class Stream(Source):
    """A Python iterable of batches with any number of rows, seen once.

    Rows are cut into batches of the solver's size. Rows too few for a last batch stay in `leftover`.

    Parameters
    ----------
    batches : iterable of dict of arrays
        Columns by name, the same in each batch.
    """

    buffer: _Buffer = eqx.field(static=True)

    def __init__(self, batches: Iterable[Mapping[str, ArrayLike]]) -> None:
        if isinstance(batches, dict):
            raise checks.InputError("a Stream needs an iterable of batches; for one dictionary of columns use Dataset")
        try:
            self.buffer = _Buffer(iter(batches))
        except TypeError:
            raise checks.InputError(f"a Stream needs an iterable of batches, not {batches!r}") from None

    @property
    def leftover(self) -> int:
        """Rows received but not used, too few for a batch."""
        return self.buffer.held

    def pilot(self, key: jax.Array, size: int) -> Sample:
        """The first rows, which stay in the stream and are still learnt from."""
        self.buffer.fill(size)
        if not self.buffer.held:
            raise checks.InputError("the stream is empty; give at least one batch")
        return self.buffer.peek(size)

    def capacity(self, *, batch: int, steps: int) -> int:
        """Every row is new."""
        return batch * steps

    def spans(self, key: jax.Array, *, batch: int, marks: Sequence[int]) -> Iterator[Span]:
        """Batches stacked up to the next mark, padded to one length so that the loop compiles once."""
        longest = max(stop - start for start, stop in itertools.pairwise(marks))
        for start, stop in itertools.pairwise(marks):
            self.buffer.fill(batch * (stop - start))
            ready = min(stop - start, self.buffer.held // batch)
            if ready:
                yield StreamPlan(self.buffer.take(batch, ready, longest), jnp.asarray(start)), start, start + ready
            if ready < stop - start:
                return


class StreamPlan(Plan):
    """A stretch of consecutive batches.

    Attributes
    ----------
    stacked : dict of arrays
        Columns of shape (batches, B, ...).
    start : array
        Number of the first batch.
    """

    stacked: Sample
    start: jax.Array

    def batch(self, step: jax.Array) -> tuple[Sample, jax.Array]:
        """The batch from the stack, in fresh slots."""
        sample = jax.tree.map(lambda column: column[step - self.start], self.stacked)
        size = next(iter(sample.values())).shape[0]
        return sample, step * size + jnp.arange(size)


class _Buffer:
    """Rows waiting between the iterator and the solver."""

    def __init__(self, batches: Iterator[Mapping[str, ArrayLike]]) -> None:
        self.batches = batches
        self.waiting: list[dict[str, Floats]] = []
        self.held = 0

    def fill(self, rows: int) -> None:
        """Read batches until `rows` rows wait or the iterator ends."""
        while self.held < rows:
            batch = next(self.batches, None)
            if batch is None:
                return
            checks.instance("a batch of a stream", batch, dict, "such as {'x': ..., 'y': ..., 'z': ...}")
            columns = {name: np.asarray(checks.array(name, column)) for name, column in batch.items()}
            if self.waiting and columns.keys() != self.waiting[0].keys():
                raise checks.InputError(
                    f"every batch of a stream needs the same columns; one has {sorted(columns)}, "
                    f"an earlier one {sorted(self.waiting[0])}"
                )
            lengths = {len(column) if column.ndim else 0 for column in columns.values()}
            if len(lengths) != 1 or 0 in lengths:
                raise checks.InputError(f"the columns of a batch need equally many rows, but have {sorted(lengths)}")
            for name, column in columns.items() if self.waiting else ():
                if column.shape[1:] != self.waiting[0][name].shape[1:]:
                    raise checks.InputError(
                        f"{name} must have the same width in every batch of a stream, but has shapes "
                        f"{self.waiting[0][name].shape} and {column.shape}"
                    )
            self.waiting.append(columns)
            self.held += lengths.pop()

    def peek(self, rows: int) -> Sample:
        """The first rows waiting, as JAX arrays."""
        return {name: jnp.asarray(column[:rows]) for name, column in self._join().items()}

    def take(self, batch: int, count: int, padded: int) -> Sample:
        """`count` batches off the front, stacked and zero-padded to `padded` batches."""
        joined, rows = self._join(), batch * count
        self.waiting = [{name: column[rows:] for name, column in joined.items()}]
        self.held -= rows

        def stack(column: Floats) -> jax.Array:
            stacked = np.zeros((padded, batch, *column.shape[1:]), dtype=column.dtype)
            stacked[:count] = column[:rows].reshape(count, batch, *column.shape[1:])
            return jnp.asarray(stacked)

        return {name: stack(column) for name, column in joined.items()}

    def _join(self) -> dict[str, Floats]:
        if len(self.waiting) > 1:
            names = self.waiting[0]
            self.waiting = [{name: np.concatenate([part[name] for part in self.waiting]) for name in names}]
        return self.waiting[0]


__getattr__ = renamed(__name__, {"LaidOut": "PlannedSource"})
