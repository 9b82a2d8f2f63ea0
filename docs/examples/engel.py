"""How does the share of food fall as households get richer? An Engel curve with bands.

    python docs/examples/engel.py --figure docs/images/example_engel.png

Households plan what they spend in all and what on food together, so that the total expenditure of 1,655 British
households is not given from outside. Their wages move the total, but hardly what they like to eat: wages are the
instrument. No shape of the curve is assumed; the band covers all of it at once, with 95 % probability.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dualembed as de

DATA = Path(os.environ.get("DUALEMBED_DATA", Path(__file__).parents[3] / "shared" / "data"))
HOUSEHOLDS = DATA / "iv" / "engel95.csv"
POINTS = 41


class Curve(NamedTuple):
    """The share of food (n,) at logarithms of expenditure (n,), with a band around all of it."""

    spending: np.ndarray
    share: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


# Every number is chosen from the data: kernels, their widths, how smooth the curve is. Outside the middle 90 % of
# households there is little to learn from, so the curve is shown within.
def curve(spending: np.ndarray, food: np.ndarray, wages: np.ndarray | None) -> tuple[Curve, de.IVRegressor]:
    """The curve with wages as the instrument, or by plain regression, and the model that it is of."""
    model = de.IVRegressor().fit(spending[:, None], food, instruments=wages)
    grid = np.linspace(*np.quantile(spending, [0.05, 0.95]), POINTS)
    return Curve(grid, model.predict(grid[:, None]), *model.band(grid[:, None])), model


def read(file: Path = HOUSEHOLDS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(logarithm of expenditure, share of food, logarithm of wages), one household a row."""
    table = de.data.read_table(file)
    spending, food, wages = (np.asarray(table[name], dtype=float) for name in ("logexp", "food", "logwages"))
    return spending, food, wages


def main(rows: int | None = None, figure: Path | None = None) -> tuple[Curve, Curve]:
    """The curves by instrument and by plain regression on the first so many households, printed and drawn."""
    spending, food, wages = (column[:rows] for column in read())
    found, model = curve(spending, food, wages)
    print(model.selection_)
    print(model.diagnostics_)
    plain, _ = curve(spending, food, None)
    for name, each in (("instrument", found), ("regression", plain)):
        for place in (0, POINTS // 2, POINTS - 1):
            print(
                f"{name}: share of food at log expenditure {each.spending[place]:.2f} is {each.share[place]:.3f}, "
                f"band {each.lower[place]:.3f} to {each.upper[place]:.3f}"
            )
    if figure is not None:
        draw(found, plain, spending, food, figure=figure)
    return found, plain


def draw(found: Curve, plain: Curve, spending: np.ndarray, food: np.ndarray, *, figure: Path) -> None:
    """Both curves with the band, over the households."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(5.6, 3.6), layout="constrained")
    ax.plot(spending, food, ".", color="#555555", alpha=0.25, markersize=3)
    ax.fill_between(
        found.spending, found.lower, found.upper, color="#0072B2", alpha=0.2, linewidth=0, label="95 % band"
    )
    ax.plot(found.spending, found.share, color="#0072B2", linewidth=2, label="wages as instrument")
    ax.plot(plain.spending, plain.share, "--", color="#D55E00", linewidth=1.8, label="plain regression")
    ax.set(xlabel="logarithm of expenditure", ylabel="share of food", ylim=(0, 0.5))
    ax.set_xlim(found.spending[0] - 0.1, found.spending[-1] + 0.1)
    ax.legend(frameon=False)
    pyplot.savefig(figure, dpi=110)
    pyplot.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, help="where to save the figure")
    main(figure=parser.parse_args().figure)
