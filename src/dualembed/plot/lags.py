"""What a process estimator answers at several lags: where the answer settles, what is seen of the process is Markov."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.plot.drawn import keep
from dualembed.plot.style import BLUE, GREY, axes_for, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dualembed.answers.question import Question


def lags(
    model: Fitted,
    lagtimes: Sequence[int],
    data: Any,
    *,
    question: Callable[[Any], Question] | None = None,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Plot the answer of an estimator of a process against the lag of its transitions.

    It is fitted anew at each lag, on the same trajectories. Answers of a Markov process are the same at any lag, up to
    chance; where they still move, what is seen of the process has a memory, and a longer lag or more columns are
    needed. This is how lags of Markov state models are chosen by their implied timescales.

    Parameters
    ----------
    model : estimator
        An estimator with a parameter `lagtime`, such as `HittingTimeRegressor`; whether it is fitted does not matter.
    lagtimes : sequence of int
        The lags, in rows.
    data : dict or list of arrays
        What it is fitted to: arguments by name, as in `model.fit(**data)`, or a list of trajectories.
    question : callable, optional
        What to ask, a function of the fitted model such as `lambda model: model.at([[0.0, 1.0]])`; by default the
        headline of its summary.
    level : float, default=0.95
        Probability that each interval covers with.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> import dualembed as de
    >>> from matplotlib.figure import Figure
    >>> path = np.cumsum(np.random.default_rng(0).normal(size=1000)) % 5
    >>> model = de.HittingTimeRegressor(lambda s: s[:, 0] > 4)
    >>> ax = de.plot.lags(model, [1, 2], [path], ax=Figure().subplots())
    >>> [int(lag) for lag in de.plot.data_of(ax)["lag"]]
    [1, 2]
    """
    from sklearn.base import clone

    if "lagtime" not in model.get_params():
        raise checks.InputError(
            f"{type(model).__name__} has no lagtime; give an estimator of a process, such as HittingTimeRegressor"
        )
    if not len(lagtimes):
        raise checks.InputError("lagtimes is empty; give the lags to fit at, such as [1, 2, 5, 10]")
    rows = []
    for lag in lagtimes:
        fitted = clone(model).set_params(lagtime=lag)
        fitted = fitted.fit(**data) if isinstance(data, Mapping) else fitted.fit(data)
        answer = fitted.summary().headline if question is None else fitted.ask(question(fitted))
        lower, upper = answer.interval(level)
        known = {"estimate": answer.value, "std_error": answer.stderr, "conf_low": lower, "conf_high": upper}
        rows.append({"lag": lag, "time": lag * fitted.get_params()["dt"], **known, "verdict": str(answer.verdict)})
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return draw_lags(axes_for(ax), columns, fitted.task_, data)


def draw_lags(ax: Axes, columns: Mapping[str, Sequence[Any]], task: Any, data: Any = None) -> Axes:
    """Answers with intervals against the time that a lag takes, and a line at the last one."""
    times, values = np.asarray(columns["time"]), np.asarray(columns["estimate"])
    around = np.abs(np.stack([columns["conf_low"], columns["conf_high"]]) - values)
    shown = np.all(np.isfinite(around), axis=0)
    ax.axhline(values[np.argmax(times)], linestyle="--", color=GREY, linewidth=1)
    look: dict[str, Any] = {"fmt": "o", "color": BLUE, "capsize": 3, "markersize": 5, "linewidth": 1.5}
    ax.errorbar(times[shown], values[shown], around[:, shown], **look)
    ax.plot(times[~shown], values[~shown], "o", markerfacecolor="none", color=BLUE, markersize=5)
    low = min(0.0, float(np.min(values)))
    ax.set_ylim(low, None)
    inputs = data.get("states") if isinstance(data, Mapping) else data
    return keep(finish(ax, x="lag", y=f"mean {task.noun}" if task.noun else task.symbol), columns, inputs)
