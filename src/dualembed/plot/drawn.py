"""What figures draw, as tables: every function of this package keeps its numbers with the axes that it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from dualembed import checks
from dualembed.data.libraries import library_of, make_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Drawn(NamedTuple):
    """The columns of a figure, and the library of the frames that it was drawn from, if any."""

    columns: dict[str, Sequence[Any]]
    library: str


_drawn: WeakKeyDictionary[Any, Drawn] = WeakKeyDictionary()


def keep(ax: Axes, columns: Mapping[str, Sequence[Any]], data: Any = None) -> Axes:
    """The axes, for which `data_of` gives these columns from now on, in a frame of the library of the data."""
    tables = data.values() if isinstance(data, Mapping) else [data]
    _drawn[ax] = Drawn(dict(columns), library_of(*tables))
    return ax


def joined(parts: Sequence[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    """Tables of the same columns below each other."""
    return {name: [cell for part in parts for cell in part[name]] for name in (parts[0] if parts else ())}


def data_of(ax: Axes) -> Any:
    """What a figure of this package shows, as a frame, to draw it anew with any other tool.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        What a function of `dualembed.plot` has given back.

    Returns
    -------
    frame
        A row for each mark, or each point of a curve: of the library of the `data` that were drawn, without such data
        of pandas where that is installed, else of Arrow. Estimates stand in `estimate`, `std_error`, `conf_low` and
        `conf_high`.

    Examples
    --------
    >>> import numpy as np
    >>> import dualembed as de
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> model = de.IVRegressor(primal="linear", dual="linear").fit({"price": x}, 2 * x + rng.normal(size=200))
    >>> ax = de.plot.function(model, ax=Figure().subplots())
    >>> list(de.plot.data_of(ax).columns)
    ['column', 'at', 'level', 'estimate', 'std_error', 'conf_low', 'conf_high']
    """
    drawn = _drawn.get(ax)
    if drawn is None:
        raise checks.InputError(
            "these axes were not drawn by dualembed.plot, or something else was drawn into them since; give what one "
            "of its functions has given back"
        )
    return make_frame(drawn.columns, drawn.library)
