"""Learning from conditional distributions with dual embeddings (Dai, He, Pan, Boots and Song).

Many problems ask for a function f whose *conditional mean* is right, when only one sample of each
conditional distribution is ever seen:

    min_f  E[ loss_y( E[moment(f) | κ] ) ],      moment(f) = Σ_k weight_k f(point_k) + offset

Learning under invariance or noisy inputs, policy evaluation, action values, instrumental variables,
linearly-solvable control and hitting times are all of this form. Squaring a one-sample mean is biased,
so the problem is solved as a saddle point over two functions, in which every expectation is a plain one:

    min_f max_u  E[ u(κ) moment(f) - loss*_y(u(κ)) ]

A problem is its moment, a function space is anything that moves by slopes at points, and any two spaces
serve as primal f and dual u. For example, y = E[f(z) | x] + noise with one draw of z for each x:

    import jax
    import dualembed as de

    problem = de.problems.Invariance(de.sources.Dataset(x=x, y=y, z=z), loss=de.losses.Square())
    primal = de.spaces.RKHS(de.kernels.Gaussian(bandwidth=0.3))
    dual = de.spaces.RKHS(de.kernels.Gaussian(bandwidth=0.3))
    solver = de.solvers.EmbeddingSGD(steps=2000, batch=50)

    result = de.solve(jax.random.key(0), de.Saddle(problem, primal, dual), solver)
    f = result.primal(points)

or, with every number chosen from the data, `result = de.auto(0, problem)`.

Names are imported when first used: `import dualembed` alone costs no JAX. The derivation, with numbered
equations, is docs/maths.md.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from dualembed.deprecation import MovedModule

if TYPE_CHECKING:
    from dualembed import (
        baselines,
        control,
        data,
        embeddings,
        estimators,
        examples,
        kernels,
        links,
        losses,
        plot,
        problems,
        report,
        samplers,
        schedules,
        selection,
        solvers,
        sources,
        spaces,
    )
    from dualembed.answers import Answer, Question, Verdict
    from dualembed.checks import InputError
    from dualembed.comparison import compare, compare_models
    from dualembed.estimates import Estimate
    from dualembed.estimators import (
        ActionValueEvaluator,
        CommittorRegressor,
        HittingTimeRegressor,
        InvariantClassifier,
        InvariantRegressor,
        IVRegressor,
        LinearControl,
        PolicyEvaluator,
        StationaryAverage,
    )
    from dualembed.problems import Terms
    from dualembed.saddle import Saddle
    from dualembed.saving import load, save
    from dualembed.selection import auto
    from dualembed.solvers import Result, solve

__version__ = "0.1.0"

__all__ = [
    "ActionValueEvaluator",
    "CommittorRegressor",
    "HittingTimeRegressor",
    "IVRegressor",
    "InvariantClassifier",
    "InvariantRegressor",
    "LinearControl",
    "PolicyEvaluator",
    "StationaryAverage",
    "save",
    "load",
    "Estimate",
    "Answer",
    "Question",
    "Verdict",
    "compare",
    "compare_models",
    "auto",
    "solve",
    "Saddle",
    "Terms",
    "Result",
    "InputError",
    "baselines",
    "control",
    "data",
    "embeddings",
    "estimators",
    "examples",
    "kernels",
    "links",
    "losses",
    "plot",
    "problems",
    "report",
    "samplers",
    "schedules",
    "selection",
    "solvers",
    "sources",
    "spaces",
    "__version__",
]

_HOMES = {
    "answers": "Answer Question Verdict",
    "checks": "InputError",
    "comparison": "compare compare_models",
    "estimates": "Estimate",
    "estimators": "ActionValueEvaluator CommittorRegressor HittingTimeRegressor IVRegressor InvariantClassifier "
    "InvariantRegressor LinearControl PolicyEvaluator StationaryAverage",
    "problems": "Terms",
    "saddle": "Saddle",
    "saving": "load save",
    "selection": "auto",
    "solvers": "Result solve",
}
_HOME = {name: f"dualembed.{home}" for home, names in _HOMES.items() for name in names.split()}

for _old in ("policies", "propensities", "trajectories"):
    sys.modules[f"dualembed.{_old}"] = globals()[_old] = MovedModule(f"dualembed.{_old}", f"dualembed.data.{_old}")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in __all__:
        value = importlib.import_module(f"dualembed.{name}")
    else:
        raise AttributeError(f"module 'dualembed' has no attribute {name!r}")
    globals()[name] = value  # the next look-up is an ordinary one
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
