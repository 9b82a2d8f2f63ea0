"""Which classes and functions model files may hold, and the words by which files call them.

Parts of dualembed have words, such as kernels.Gaussian, which stay when modules and classes move; parts of equinox.nn
have their place there. Whatever is not listed here is never saved, imported or built. A few known functions are kept by
name; of all others the name is kept alone, since files must not bring code.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks

EQUINOX = re.compile(r"equinox\.nn(\._?[a-z]\w*)+:[A-Za-z_]\w*")
# Pairs of functions, which are kept by name as functions are.
PAIRS = ("optax._src.base:GradientTransformation", "optax._src.base:GradientTransformationExtraArgs")

# What networks are made of. None of these reads or writes anything, whatever it is given.
ACTIVATIONS = (
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_tanh", "identity", "leaky_relu", "log_sigmoid",
    "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus",
    "sparse_plus", "sparse_sigmoid", "squareplus", "tanh",
)  # fmt: skip
ELEMENTWISE = ("abs", "arctan", "cos", "exp", "log1p", "maximum", "minimum", "sin", "sinc", "sqrt", "square")

# The first part of a word, the module that the classes are in by now, and the second parts: their names. A word is for
# ever. When a class moves, its name moves to another module here, within the same first part; when it is renamed, the
# old name stays here and RENAMED has the new one; when it is dropped, its word goes to GONE.
PARTS: dict[str, dict[str, str]] = {
    "baselines": {
        "baselines.conditional_embedding": "ConditionalEmbeddingTwoStep",
        "baselines.instrumental": "KernelIV Monomials TwoStageLeastSquares",
        "baselines.least_squares": "BatchSAA KernelBellmanLoss LSTD",
        "baselines.mdp_embedding": "BellmanResidual FeatureCourse KernelCourse MDPKernelEmbedding "
        "MDPRandomFeatureEmbedding Prepared Run Transitions",
        "baselines.residual_gradient": "DoubleSampling ResidualGradient SCGD VirtualSamples",
        "baselines.sieve": "CrossValidatedSieveIV SieveIV",
        "baselines.spline_fit": "BootstrappedFit SieveSpread SplineFit",
        "baselines.splines": "AdditiveSplines TensorSplines",
        "baselines.temporal_difference": "GTD2 TD0 TDC",
    },
    "control": {
        "control.linear_control": "AverageCostSolution",
        "control.policy_iteration": "EpsilonGreedy Mean PolicyIteration QLearning Round Stage",
    },
    "data": {
        "data.coding": "Schema",
        "data.conditions": "Column Comparison Condition",
        "data.environments": "Move",
        "data.formula": "Formula FormulaColumns",
        "data.policy_forms": "Choices RowPolicy",
        "data.qm7": "Molecules",
        "data.terms": "Side",
    },
    "embeddings": {
        "embeddings.conditional": "ConditionalEmbedding FeatureSmoother KernelSmoother",
        "embeddings.samples": "JointEmbedding MeanEmbedding",
    },
    "estimators": {
        "solvers.base": "Selection",
        "data.coding": "Coding Column",
        "estimators.diagnostics": "Diagnostics FirstStage",
        "estimators.logged_policy": "Stepwise",
        "estimators.policy_values": "Returns",
        "estimators.effects": "Place",
        "estimators.learning": "RowSample",
        "estimators.moves": "Moves",
        "estimators.stationary_average": "Observed",
        "estimators.weighting": "Weighting",
        "saving.migrations": "Stream",
    },
    "comparison": {
        "comparison.compared": "Compared",
        "comparison.joint": "Joint",
        "comparison.one_step": "Rounds",
        "comparison.policy_table": "Best Comparison",
        "comparison.rivals": "Steps",
        "comparison.model_table": "ComparedModel ModelComparison",
    },
    "answers": {
        "answers.anderson_rubin": "ConfidenceSet",
        "answers.answer": "Answer VerdictRules",
        "answers.average_effects": "AverageEffects",
        "answers.iv_strength": "FirstStageTest",
        "answers.iv_tests": "IVTest",
        "answers.linear_results": "LinearResults",
        "answers.question": "Question",
        "answers.subgroups": "Subgroups",
    },
    "linear": {
        "linear.fit": "LinearFit Overlap",
        "linear.averaging": "Groups Rows Weighing",
        "linear.candidates": "Functional Headline RidgePath",
        "linear.path": "Average Estimates",
        "linear.moment_fit": "MixturePrior MomentFit",
        "linear.sums": "Sums",
    },
    "kernels": {
        "kernels.base": "Columns Product Scaled Sum",
        "kernels.distributions": "HaarIntegral MeanOverDraws ProbabilityProduct",
        "kernels.inner_product": "ArcCosine ArcSine Polynomial",
        "kernels.stationary": "Categorical Gaussian Laplacian Matern32 Matern52 Periodic",
    },
    "links": {"links": "Clipped Direct Legendre"},
    "losses": {"losses": "Hinge Huber Logistic Pinball Poisson SmoothedHinge Square SquaredHinge"},
    "plot": {"plot.surface": "Field Place"},
    "problems": {
        "problems.action_value": "ActionValue LambdaReturn",
        "problems.average_reward": "AverageReward",
        "problems.base": "Moment Terms",
        "problems.hitting_time": "Committor HittingTime",
        "problems.linear_control": "AverageCost FirstExit",
        "problems.policy_evaluation": "PolicyEvaluation",
        "problems.regression": "InstrumentalVariables Invariance Unconditional",
    },
    "propensities": {"data.propensities": "Overlap Propensities WeightSums"},
    "saddle": {"saddle": "DualFunction Saddle"},
    "samplers": {
        "samplers": "AdditiveNoise AtomPermutation Group ImageRotation ImageShift Orbit "
        "Resampled ResampledPlan Rotation2D Rotation3D"
    },
    "saving": {"saving.allowed": "MissingFunction"},
    "schedules": {"schedules": "Constant InverseSqrt OffsetLinear OffsetPower OffsetSqrt Power"},
    "selection": {
        "selection.kernels": "GroupedRegression Shape",
        "selection.consistency": "Consistency",
        "selection.evidence": "Found Moments",
        "selection.instruments": "Instruments Regression",
        "selection.held_out": "HeldOut",
        "selection.honest_score": "Score",
        "solvers.base": "Record Step",
        "selection.search": "Choice Level Samples",
    },
    "solvers": {
        "solvers.closed_form": "AveragedPaths ClosedForm SparseForm SparseSums",
        "solvers.base": "Pair Probe Result Trace",
        "solvers.embedding_sgd": "CentredEmbeddingSGD EmbeddingSGD Preconditioner",
        "solvers.gap": "Gap",
        "solvers.newton": "Curvature Newton Rows Slopes",
        "saving.migrations": "Statistics",
        "solvers.stochastic": "Run Seen",
        "estimates": "Estimate",
        "linear.moment_fit": "Spread Uncertainty",
    },
    "sources": {"sources": "Dataset DatasetPlan Simulator SimulatorPlan Stream StreamPlan"},
    "spaces": {
        "spaces.base": "Layout Move Regulariser Trail",
        "spaces.basis": "Affine AffineMap Basis BasisMap PolynomialMap Table TableMap",
        "spaces.doubly_stochastic": "Blocks DoublyStochastic SeededFunction",
        "spaces.fourier": "Fourier WaveMap",
        "spaces.linear": "LinearFunction Preconditioned TransformedMap Weights",
        "spaces.network": "Network NetworkFunction Training _Recombined",
        "spaces.nystrom": "ActionFeatures KMeansPlusPlus LandmarkMap LeverageScores Nystrom Stack TrendedLandmarks "
        "Uniform",
        "spaces.within": "CentredMap WithinMap",
        "spaces.rkhs": "Expansion KernelFunction RKHS",
    },
}
RENAMED: dict[str, str] = {
    "baselines.Prepared": "Preparation",
    "baselines.Run": "EmbeddedRun",
    "baselines.Transitions": "EmbeddedTransitions",
    "control.Round": "Improvement",
    "data.Column": "ColumnRef",
    "estimators.Column": "ColumnCoding",
    "data.Move": "StepOutcome",
    "plot.Field": "Surface",
    "plot.Place": "Axis",
    "selection.Choice": "Model",
    "selection.Found": "Maximum",
    "selection.Samples": "MomentSample",
    "selection.Step": "Choice",
    "spaces.Move": "Update",
    "spaces.Trail": "RunningAverage",
}
"""Words whose class has another name by now, with that name."""
GONE: frozenset[str] = frozenset(
    {
        "estimators.Fit",
        "estimators.Recipe",
        "estimators.Transitions",
        "report.Effect",
        "report.Words",
        "report.Worth",
        "selection.Fit",
        "selection.Variances",
    }
)
"""Words of older files whose class is no more; no other class takes one."""


def places(parts: dict[str, dict[str, str]], renamed: dict[str, str]) -> dict[str, str]:
    """ "module:class" of every word."""
    homes = {}
    for room, modules in parts.items():
        for module, names in modules.items():
            for name in names.split():
                word = f"{room}.{name}"
                homes[word] = f"dualembed.{module}:{renamed.get(word, name)}"
    return homes


WORDS = places(PARTS, RENAMED)
WORD_OF = {place: word for word, place in WORDS.items()}


def class_name(kind: type) -> str | None:
    """The word, or the place in another library, of a class that files may hold; else None."""
    place = f"{kind.__module__}:{kind.__qualname__}"
    name = WORD_OF.get(place, place if _is_foreign(place) else None)
    return name if _has_fields(kind) else None


def class_named(name: str) -> type:
    """The class of that name, refused unless files may hold it; nothing but a module's import is run."""
    place = WORDS.get(name, name if _is_foreign(name) else None)
    if place is not None:
        module, _, own = place.partition(":")
        try:
            kind = getattr(importlib.import_module(module), own, None)
        except ImportError:
            kind = None
        if isinstance(kind, type) and class_name(kind) == name:
            return kind
    raise checks.InputError(f"there is no part {name} of a model in this version of dualembed; use the one it is from")


def fields_of(kind: Any) -> dict[str, Any]:
    """The names of the class's fields, each with its default, `dataclasses.MISSING` where there is none."""
    if issubclass(kind, tuple):
        return {name: kind._field_defaults.get(name, dataclasses.MISSING) for name in kind._fields}
    return {field.name: field.default for field in dataclasses.fields(kind)}


def instance_of(kind: type, values: dict[str, Any]) -> Any:
    """An object of the class with these values of its fields, made without running any code of the class."""
    defaults = fields_of(kind)
    strange = sorted(values.keys() - defaults.keys())
    lacking = sorted(
        name for name, default in defaults.items() if name not in values and default is dataclasses.MISSING
    )
    if strange or lacking:
        raise checks.InputError(
            f"{kind.__name__} has other fields in this version of dualembed "
            f"({', '.join(strange + lacking)}); use the one it is from"
        )
    whole = {**defaults, **values}
    if issubclass(kind, tuple):
        return tuple.__new__(kind, whole.values())
    made = object.__new__(kind)
    for name, value in whole.items():
        object.__setattr__(made, name, value)
    return made


def _is_foreign(place: str) -> bool:
    return place in PAIRS or EQUINOX.fullmatch(place) is not None


def _has_fields(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


@dataclasses.dataclass(frozen=True)
class MissingFunction:
    """A function that a model had when it was saved, known by its name only; calling it says how to give it again.

    Attributes
    ----------
    name : str
        Its name, such as "policies:greedy".
    parameter : str or None
        The constructor's parameter that it was, if it was one.
    """

    name: str
    parameter: str | None = None

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an `InputError` that says how to give the function again."""
        again = f"load(path, functions={{{self.name!r}: ...}})"
        if self.parameter is not None:
            again += f" or model.set_params({self.parameter}=...)"
        raise checks.InputError(f"the function {self.name} is not kept in model files; give it again by {again}")


@functools.cache
def known_functions() -> dict[str, Callable[..., Any]]:
    """The functions that are found again on load, by name."""
    functions: dict[str, Callable[..., Any]] = {}
    for module, names in ((jax.nn, ACTIVATIONS), (jnp, ELEMENTWISE)):
        functions |= {f"{module.__name__}:{name}": getattr(module, name) for name in names if hasattr(module, name)}
    # An equinox network ends with a nameless identity by default.
    for argument in inspect.signature(eqx.nn.MLP).parameters.values():
        if inspect.isfunction(argument.default):
            functions[f"equinox.nn:MLP.{argument.name}"] = argument.default
    return functions


def known_name(function: Any) -> str | None:
    """The name by which the function is found again, or None."""
    return next((name for name, known in known_functions().items() if known is function), None)


def importable_name(function: Any) -> str | None:
    """ "module:qualname", or None for lambdas, functions within functions and callable objects."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and re.fullmatch(r"\w+(\.\w+)*", name):
        return f"{module}:{name}"
    return None
