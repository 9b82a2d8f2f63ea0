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
    PolicyIteration,
    QLearning,
    Round,
    Stage,
    action_space,
    improve,
)

__all__ = [
    "AverageCostSolution",
    "ConvexityWarning",
    "EpsilonGreedy",
    "PolicyIteration",
    "QLearning",
    "Round",
    "Stage",
    "action_space",
    "average_cost",
    "controlled_probabilities",
    "controlled_sampler",
    "improve",
]
