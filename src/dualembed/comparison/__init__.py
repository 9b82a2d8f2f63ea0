"""Several policies on one log, or several models of one effect: side by side, with the tests between them."""

from dualembed.comparison.model_table import ComparedModel, ModelComparison
from dualembed.comparison.models import compare_models
from dualembed.comparison.policies import compare
from dualembed.comparison.policy_table import Best, Comparison

__all__ = ["Best", "ComparedModel", "Comparison", "ModelComparison", "compare", "compare_models"]
