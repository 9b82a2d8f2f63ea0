"""The model files beside this one, which every later version must read: `python tests/saved/make.py` writes them.

A file once released is never made again: a new format gets files of its own beside the old ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas

from dualembed.estimators import IVRegressor, PolicyEvaluator
from dualembed.kernels import Gaussian
from dualembed.saving import save
from dualembed.spaces import Nystrom

FOLDER = Path(__file__).parent


def line() -> IVRegressor:
    """Two-stage least squares on a number and a category."""
    rng = np.random.default_rng(0)
    z, hidden = rng.normal(size=(2, 60))
    kind = rng.choice(["ash", "oak", "yew"], size=60)
    table = pandas.DataFrame({"dose": z + hidden, "tree": kind})
    return IVRegressor(primal="linear", dual="linear").fit(table[["dose"]], z + 3 * hidden, z, controls=table[["tree"]])


def curve() -> PolicyEvaluator:
    """A value function in small Nyström spaces, fitted in a way that goes on."""
    rng = np.random.default_rng(1)
    state = rng.normal(size=(120, 2))
    following = 0.5 * state + rng.normal(size=(120, 2))
    spaces = {"primal": Nystrom(Gaussian(2.0), 12), "dual": Nystrom(Gaussian(2.0), 16)}
    model = PolicyEvaluator(0.9, **spaces)
    return model.partial_fit(state, np.sin(state[:, 0]), following, episodes=np.arange(120) // 6)


if __name__ == "__main__":
    save(line(), FOLDER / "line-1.dualembed")
    save(curve(), FOLDER / "curve-1.dualembed")
