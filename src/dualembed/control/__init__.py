"""Control: policy iteration, Q-learning, and optimal control from the desirability function."""

from dualembed.control.average_cost import AverageCostSolution, average_cost
from dualembed.control.desirability import controlled_probabilities, controlled_sampler
from dualembed.control.online import Stage, improve
from dualembed.control.policy_iteration import EpsilonGreedy, PolicyIteration, Round, action_space
from dualembed.control.q_learning import ConvexityWarning, QLearning

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
