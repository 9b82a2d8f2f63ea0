"""Judging and choosing functions from single samples, with no ground truth."""

from dualembed.selection.automatic import auto
from dualembed.selection.evidence import evidence, maximise, moments
from dualembed.selection.honest_score import Score, honest_score
from dualembed.selection.record import Record, Step

__all__ = ["Record", "Score", "Step", "auto", "evidence", "honest_score", "maximise", "moments"]
