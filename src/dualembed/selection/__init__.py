"""Judging and choosing functions from single samples, with no ground truth."""

from dualembed.selection.honest_score import Score, honest_score

__all__ = ["Score", "honest_score"]
