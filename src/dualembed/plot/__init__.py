"""Figures of fitted models, for papers and notebooks: each draws into `ax`, or a new figure, and gives the axes.

`data` is what the model was fitted to, by the names that `fit` gives its arguments, as in
`model.fit(**data); plot.function(model, data)`; a table of states (of X) alone will do for most.
"""

from dualembed.plot.figures import density_ratio, errors, function, singular_values, weights, witness

__all__ = ["density_ratio", "errors", "function", "singular_values", "weights", "witness"]
