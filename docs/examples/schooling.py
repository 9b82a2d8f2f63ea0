"""What is a year at school worth? Card's returns to schooling, by instrument.

    python docs/examples/schooling.py --figure docs/images/example_schooling.png

Among 3,010 young men of 1976, those with more schooling earn more; but ability moves both schooling and wages, so that
plain regression does not say what a year at school does. Card (1995) compares men who grew up near a college with
those who did not: nearness moves schooling and, given the controls, touches wages through schooling only.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

import dualembed as de

DATA = Path(os.environ.get("DUALEMBED_DATA", Path(__file__).parents[3] / "shared" / "data"))
MEN = DATA / "iv" / "card1995.csv"

# Card's controls: experience, race, and where the man lives and lived in 1966 (one of nine regions is left out).
CONTROLS = ["exper", "expersq", "black", "south", "smsa", "smsa66", *(f"reg66{number}" for number in range(1, 9))]


# Straight lines on either side are two-stage least squares, whose answer here is known: 0.1315.
def by_instrument(table: dict[str, np.ndarray]) -> de.IVRegressor:
    """The logarithm of the wage as a straight line in schooling and the controls, with nearness as the instrument."""
    model = de.IVRegressor(primal="linear", dual="linear")
    controls = np.stack([table[name] for name in CONTROLS], axis=1)
    return model.fit(table["educ"][:, None], table["lwage"], instruments=table["nearc4"], controls=controls)


def by_regression(table: dict[str, np.ndarray]) -> de.IVRegressor:
    """The same straight line without an instrument: least squares."""
    columns = np.stack([table["educ"], *(table[name] for name in CONTROLS)], axis=1)
    return de.IVRegressor(primal="linear", dual="linear").fit(columns, table["lwage"])


def read(file: Path = MEN) -> dict[str, np.ndarray]:
    """The columns that are needed, by name."""
    table = de.data.read_table(file)
    return {name: np.asarray(table[name], dtype=float) for name in ("educ", "lwage", "nearc4", *CONTROLS)}


def main(figure: Path | None = None) -> dict[str, tuple[float, float]]:
    """(return to a year, standard error) by least squares and by instrument, printed and drawn."""
    table = read()
    models = {"least squares": by_regression(table), "instrument": by_instrument(table)}
    # A straight line has coefficients in the columns' own units, and standard errors that are robust to any noise.
    found = {name: (float(model.coef_[0]), float(model.coef_stderr_[0])) for name, model in models.items()}
    for name, (value, error) in found.items():
        print(f"{name}: a year at school raises the logarithm of the wage by {value:.4f} ± {error:.4f}")
    if figure is not None:
        draw(found, figure)
    return found


def draw(found: dict[str, tuple[float, float]], figure: Path) -> None:
    """Both answers with their 95 % intervals."""
    from matplotlib import pyplot

    _, ax = pyplot.subplots(figsize=(5, 1.8), layout="constrained")
    for row, (name, (value, error)) in enumerate(found.items()):
        ax.errorbar(value, row, xerr=1.96 * error, fmt="o", color=("#D55E00", "#0072B2")[row], capsize=4, label=name)
    ax.axvline(0, color="#555555", linewidth=0.8)
    ax.set(xlabel="return to a year at school (logarithm of the wage), 95 %", ylim=(-0.6, 1.6))
    ax.set_yticks(range(len(found)), list(found))
    pyplot.savefig(figure, dpi=110)
    pyplot.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, help="where to save the figure")
    main(parser.parse_args().figure)
