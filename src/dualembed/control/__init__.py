"""Control: policy iteration, Q-learning, and optimal control from the desirability function."""

from dualembed.control.linear_control import (
    AverageCostSolution,
    average_cost,
    controlled_probabilities,
    controlled_sampler,
)
from dualembed.control.policy_iteration import (
    ConvexityWarning,
    EpsilonGreedy,
    Improvement,
    PolicyIteration,
    QLearning,
    Stage,
    action_space,
    improve,
)
from dualembed.deprecation import renamed

__all__ = [
    "AverageCostSolution",
    "ConvexityWarning",
    "EpsilonGreedy",
    "Improvement",
    "PolicyIteration",
    "QLearning",
    "Stage",
    "action_space",
    "average_cost",
    "controlled_probabilities",
    "controlled_sampler",
    "improve",
]

__getattr__ = renamed(__name__, {"Round": "Improvement"})
