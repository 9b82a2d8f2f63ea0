"""Figures of fitted models, for papers and notebooks: each draws into `ax`, or a new figure, and gives the axes.

`data` is what the model was fitted to, by the names that `fit` gives its arguments, as in
`model.fit(**data); plot.function(model, data)`; a table of states (of X) alone will do for most. `data_of(ax)` gives
the numbers of any of them as a frame.
"""

from dualembed.plot.comparison import comparison
from dualembed.plot.drawn import data_of
from dualembed.plot.effects import effect, effects
from dualembed.plot.figures import function
from dualembed.plot.first_stage import first_stage
from dualembed.plot.lags import lags
from dualembed.plot.returns import returns
from dualembed.plot.trust import density_ratio, errors, singular_values, weights, witness

__all__ = [
    "comparison",
    "data_of",
    "density_ratio",
    "effect",
    "effects",
    "errors",
    "first_stage",
    "function",
    "lags",
    "returns",
    "singular_values",
    "weights",
    "witness",
]
