"""Faces of the problems for people with data, by scikit-learn's conventions."""

from dualembed.estimators.action_value_evaluator import ActionValueEvaluator
from dualembed.estimators.committor_regressor import CommittorRegressor
from dualembed.estimators.hitting_time_regressor import HittingTimeRegressor
from dualembed.estimators.invariant import InvariantClassifier, InvariantRegressor
from dualembed.estimators.iv_regressor import IVRegressor
from dualembed.estimators.linear_control import LinearControl
from dualembed.estimators.policy_evaluator import PolicyEvaluator
from dualembed.estimators.stationary_average import StationaryAverage

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
]
