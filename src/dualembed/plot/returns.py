"""What a policy's value predicts at the start of episodes, beside what these collected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.plot.drawn import keep
from dualembed.plot.style import BLUE, FONT, GREY, SKY, axes_for, finish
from dualembed.plot.surface import NORMAL, tables_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = 5  # of the episodes, in the order of what is predicted
FEWEST = 10  # episodes of a part


def returns(model: Fitted, data: Any, *, ax: Axes | None = None) -> Axes:
    """Plot what each episode of the log collected against what the value predicts at its start.

    Single episodes scatter by luck; means over parts of them, with 95 % intervals, should lie on the dashed line, where
    both are equal. It is of logs of the evaluated policy itself, whose rows are whole episodes in the order of time;
    what an episode would have collected after it was cut off is what the value says of its last state.

    Parameters
    ----------
    model : estimator
        A fitted `PolicyEvaluator`, or an `ActionValueEvaluator` of the policy that acted.
    data : dict
        The rows of the fit, as in `model.fit(**data)`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    episodes = model._episodes(tables_of(model, data))
    if episodes is None:
        raise checks.InputError(
            "returns are those of whole episodes that the policy itself has played, which these data have not; give "
            "the rows of the fit with episodes=..., in the order of time"
        )
    return draw_returns(axes_for(ax), episodes, data)


def draw_returns(ax: Axes, episodes: Any, data: Any = None) -> Axes:
    """Observed against predicted returns, with means over parts and the line where both are equal."""
    predicted, observed = np.asarray(episodes.predicted), np.asarray(episodes.observed)
    low, high = float(predicted.min()), float(predicted.max())
    slack = 0.06 * (high - low) or 0.05 * max(abs(high), 1.0)
    ends = np.array([low - slack, high + slack])
    ax.plot(ends, ends, linestyle="--", color=GREY, linewidth=1.2, label="as predicted")
    ax.plot(predicted, observed, "o", color=SKY, markersize=4, alpha=0.7, linewidth=0, label="an episode")
    order = np.array_split(np.argsort(predicted, kind="stable"), max(min(PARTS, len(predicted) // FEWEST), 1))
    parts = [part for part in order if len(part) > 1]
    places, means = ([float(each[part].mean()) for part in parts] for each in (predicted, observed))
    half = [NORMAL * float(observed[part].std(ddof=1) / np.sqrt(len(part))) for part in parts]
    name = "mean, 95 % interval"
    ax.errorbar(places, means, half, fmt="s", color=BLUE, markersize=6, capsize=4, linewidth=1.8, label=name)
    ax.set_xlim(*ends)
    look: dict[str, Any] = {"ncols": 3, "columnspacing": 1.2, "handletextpad": 0.4, "frameon": False}
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=FONT - 1.5, **look)
    columns = {name: np.asarray(each).tolist() for name, each in episodes._asdict().items()}
    return keep(finish(ax, x="return predicted at its start", y="return observed"), columns, data)
