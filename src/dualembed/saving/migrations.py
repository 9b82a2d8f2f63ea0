"""What older files say otherwise: their descriptions, brought up to this version's before anything is built.

Whoever changes what files hold (a fitted attribute, a field of a part, how something is described) raises FORMAT in
`models` by one and adds a step to STEPS here. A step works on JSON's terms alone, such as

    fitted = description["fitted"]
    fitted["errors_"] = {"class": "estimators.FrozenErrors", "fields": {"spread": fitted.pop("uncertainty_")}}

so that it is as safe on hostile files as the rest. It may be given anything that JSON can say: what it raises where
something is not as it should be is what `load` refuses the file with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from dualembed.answers import Question
from dualembed.arrays import Floats
from dualembed.estimators.policy_values import AT_STARTS
from dualembed.linear.candidates import Functional
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import Sums
from dualembed.spaces.linear import LinearFunction

# Where version 0.1 had the classes that its files may hold, and called them by: "dualembed.kernels.base:Sum". Their
# words start with the first part of the module, and stay whatever becomes of the classes.
PLACES_OF_0_1: dict[str, str] = {
    "baselines.compositional": "SCGD",
    "baselines.conditional_embedding": "ConditionalEmbeddingTwoStep",
    "baselines.double_sampling": "DoubleSampling",
    "baselines.gtd2": "GTD2",
    "baselines.kernel_bellman": "KernelBellmanLoss",
    "baselines.kernel_iv": "KernelIV",
    "baselines.lstd": "LSTD",
    "baselines.mdp_embedding": "BellmanResidual FeatureCourse KernelCourse MDPKernelEmbedding "
    "MDPRandomFeatureEmbedding Prepared Run Transitions",
    "baselines.residual_gradient": "ResidualGradient",
    "baselines.sample_average": "BatchSAA",
    "baselines.temporal_difference": "TD0 TDC",
    "baselines.two_stage_least_squares": "Monomials TwoStageLeastSquares",
    "baselines.virtual_samples": "VirtualSamples",
    "control.average_cost": "AverageCostSolution",
    "control.online": "Mean Stage",
    "control.policy_iteration": "EpsilonGreedy PolicyIteration Round",
    "control.q_learning": "QLearning",
    "data.conditions": "Column Comparison Condition",
    "data.playing": "Move",
    "data.qm7": "Molecules",
    "embeddings.conditional": "ConditionalEmbedding",
    "embeddings.samples": "JointEmbedding MeanEmbedding",
    "embeddings.smoothers": "FeatureSmoother KernelSmoother",
    "estimators.base": "Selection",
    "estimators.coding": "Coding Column",
    "estimators.diagnostics": "Diagnostics FirstStage",
    "estimators.fitting": "Fit Recipe",
    "estimators.streams": "Stream",
    "estimators.transitions": "Transitions",
    "kernels.base": "Columns Product Scaled Sum",
    "kernels.distributions": "HaarIntegral MeanOverDraws ProbabilityProduct",
    "kernels.inner_product": "ArcCosine ArcSine Polynomial",
    "kernels.stationary": "Categorical Gaussian Laplacian Matern32 Matern52 Periodic",
    "links": "Clipped Direct Legendre",
    "losses": "Hinge Huber Logistic Pinball Poisson SmoothedHinge Square SquaredHinge",
    "plot.fields": "Field Place",
    "problems.action_value": "ActionValue LambdaReturn",
    "problems.base": "Moment Terms",
    "problems.hitting_time": "Committor HittingTime",
    "problems.instrumental": "InstrumentalVariables",
    "problems.invariance": "Invariance",
    "problems.linear_control": "AverageCost FirstExit",
    "problems.policy_evaluation": "PolicyEvaluation",
    "problems.unconditional": "Unconditional",
    "propensities": "Overlap",
    "report.effects": "Effect",
    "report.words": "Words",
    "report.worth": "Worth",
    "saddle": "DualFunction Saddle",
    "samplers": "AdditiveNoise AtomPermutation Group ImageRotation ImageShift Orbit "
    "Resampled ResampledPlan Rotation2D Rotation3D",
    "saving.functions": "MissingFunction",
    "schedules": "Constant InverseSqrt OffsetLinear OffsetPower OffsetSqrt Power",
    "selection.automatic": "Fit",
    "selection.consistency": "Consistency",
    "selection.evidence": "Found Moments Regression",
    "selection.held_out": "HeldOut",
    "selection.honest_score": "Score",
    "selection.instruments": "Instruments",
    "selection.noise": "Variances",
    "selection.record": "Record Step",
    "selection.search": "Choice Level Samples",
    "solvers.base": "Pair Probe Result Trace",
    "solvers.centred_sgd": "CentredEmbeddingSGD",
    "solvers.closed_form": "ClosedForm",
    "solvers.embedding_sgd": "EmbeddingSGD",
    "solvers.gap": "Gap",
    "solvers.newton": "Curvature Newton Rows Slopes",
    "solvers.preconditioner": "Preconditioner",
    "solvers.sparse_form": "SparseForm SparseSums",
    "solvers.statistics": "Statistics",
    "solvers.stochastic": "Run Seen",
    "solvers.uncertainty": "Estimate Spread Uncertainty",
    "sources": "Dataset DatasetPlan Simulator SimulatorPlan Stream StreamPlan",
    "spaces.affine": "Affine AffineMap",
    "spaces.base": "Layout Move Regulariser",
    "spaces.basis": "Basis BasisMap",
    "spaces.doubly_stochastic": "Blocks DoublyStochastic SeededFunction",
    "spaces.fourier": "Fourier WaveMap",
    "spaces.linear": "LinearFunction Weights",
    "spaces.network": "Network NetworkFunction Training _Recombined",
    "spaces.nystrom": "KMeansPlusPlus LandmarkMap LeverageScores Nystrom Uniform",
    "spaces.preconditioned": "Preconditioned TransformedMap",
    "spaces.rkhs": "Expansion KernelFunction RKHS",
    "spaces.table": "Table TableMap",
    "spaces.trail": "Trail",
}
WORDS_OF_0_1 = {
    f"dualembed.{module}:{name}": f"{module.partition('.')[0]}.{name}"
    for module, names in PLACES_OF_0_1.items()
    for name in names.split()
}
# Roles by the words that format 2 had for them, where these are others.
ROLES_OF_2 = {
    "state": "states",
    "action": "actions",
    "reward": "rewards",
    "next_state": "next_states",
    "next_action": "next_actions",
    "weight": "importance_weights",
    "x": "X",
    "instrument": "instruments",
    "control": "controls",
    "cost": "costs",
    "terminal_cost": "terminal_costs",
}


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Sums over all rows of products of φ, g and t."""

    count: int
    cross: Floats
    dual: Floats
    dual_target: Floats
    primal: Floats
    primal_target: Floats
    target: float


@dataclasses.dataclass(frozen=True)
class Stream:
    """The sums of a closed form that more rows can be added to."""

    statistics: Statistics
    scores: Floats
    dual: LinearFunction
    amplitude: float
    dual_penalty: float

    def as_fit(self, function: LinearFunction, inflation: float) -> MomentFit:
        """The same as it is kept by now."""
        old, weights = self.statistics, np.asarray(function.weights, dtype=np.float64)
        sums = Sums(
            np.array([float(old.count)]),
            old.cross[None],
            old.dual_target[None, :, None],
            old.dual[None],
            primal=old.primal,
            primal_target=old.primal_target,
            square=old.target,
        )
        penalty = sums.residual_variance(weights) / (old.count * self.amplitude)
        maps = function.features, self.dual.features
        return MomentFit(*maps, sums, weights, penalty, self.dual_penalty, scores=self.scores, inflation=inflation)


def _with_question(fitted: dict[str, Any]) -> dict[str, Any]:
    """Starts of episodes, once points (n, d) or pairs (n, J, d) with shares (n, J), as the question of them."""
    given = fitted.get("starts_")
    if given is None or isinstance(given, Question):
        return fitted
    points, shares = given if isinstance(given, tuple) else (given[:, None], np.ones((len(given), 1)))
    sample = Functional(points, shares, np.arange(len(points)))
    return {**fitted, "starts_": Question(AT_STARTS, ((1.0, sample),))}


def renew(fitted: dict[str, Any]) -> dict[str, Any]:
    """What a fit has left behind, with older parts replaced; errors stay as the file has them."""
    fitted = _with_question(fitted)
    if "stream_" not in fitted:
        return fitted
    kept = {name: value for name, value in fitted.items() if name not in ("stream_", "widening_")}
    stream = fitted["stream_"]
    if stream is not None:
        kept["solution_"] = stream.as_fit(kept["function_"], float(fitted.get("widening_", 1.0)) ** 2)
    return kept


def migrate(description: Any, number: int) -> Any:
    """The description of a file of format `number`, in the terms of today's; it is changed in place."""
    while number in STEPS:
        STEPS[number](description)
        number += 1
    return description


def _words_for_places(description: Any) -> None:
    """Format 1 called classes by the modules that they were in."""
    waiting = [description]
    while waiting:  # not by calls, since a file may nest deeper than those can
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("class"), str):
                node["class"] = WORDS_OF_0_1.get(node["class"], node["class"])
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _schema_for_codings(description: Any) -> None:
    """Format 2 had the codings of tables in attributes of their own, and columns by the command line's words."""
    fitted = description["fitted"]
    codings = {}
    for name in ("coding_", "inputs_", "actions_", "instruments_", "controls_"):
        coding = fitted.pop(name, None)
        if coding is not None:
            fields = coding["fields"]
            fields["role"] = fields.pop("what").partition(" of ")[0]  # "variations of X"
            codings[fields["role"]] = coding
    words, digest = fitted.pop("columns_", {"dict": []}), fitted.pop("fingerprint_", None)
    groups = "groups" if description["class"] == "IVRegressor" else "episodes"
    names = [[{**ROLES_OF_2, "episode": groups}.get(word, word), {"tuple": own}] for word, own in words["dict"]]
    if codings:
        fields = {"codings": {"dict": [*map(list, codings.items())]}, "names": {"dict": names}, "digest": digest}
        fitted["schema_"] = {"class": "data.Schema", "fields": fields}


STEPS: dict[int, Callable[[Any], None]] = {1: _words_for_places, 2: _schema_for_codings}
"""From each older format to the next."""
