"""Controls that are columns of X: scorers of scikit-learn give `predict` no other columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.coding import places_of
from dualembed.data.frames import column_names, names_of, select


def split_controls(X: Any, asked: Any) -> tuple[Any, Any]:
    """(the columns of X that are treatments, those that are controls), each under the names that they have in X.

    >>> split_controls(np.array([[1.0, 2.0]]), [0])
    ({'x1': array([2.])}, {'x0': array([1.])})
    """
    names = column_names(X, "X")
    places = places_of(asked, names, "X", parameter="controls")
    if len({*places}) < len(places):
        raise checks.InputError(f"controls name a column twice, in {asked!r}; name each once")
    apart = [names[place] for place in places], [name for number, name in enumerate(names) if number not in places]
    if not all(apart):
        lacks = "no column" if not apart[0] else "every column, so that none is left whose effect could be asked for"
        raise checks.InputError(f"controls name {lacks}, in {asked!r}; name some columns of X, or give controls=None")
    if names_of(X) is not None and not isinstance(X, dict):
        return select(X, apart[1]), select(X, apart[0])
    columns = X if isinstance(X, dict) else dict(zip(names, np.asarray(X).T, strict=True))
    columns = {str(name): column for name, column in columns.items()}
    return tuple({name: columns[name] for name in each} for each in reversed(apart))  # type: ignore[return-value]


def split_categories(asked: Any, names: list[str]) -> Any:
    """Which columns of X are categories, by their names, where they were asked for by places or a mask."""
    if asked is None or asked is True:
        return asked
    return [names[place] for place in places_of(asked, names, "X")]
