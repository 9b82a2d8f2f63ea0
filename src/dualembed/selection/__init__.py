"""Judging and choosing functions from single samples, with no ground truth."""

from dualembed.selection.automatic import auto
from dualembed.selection.consistency import Consistency, consistency_test
from dualembed.selection.evidence import evidence, maximise, moments
from dualembed.selection.held_out import HeldOut, held_out, held_out_once
from dualembed.selection.honest_score import Score, honest_score
from dualembed.selection.penalty import evident_penalty
from dualembed.selection.record import Record, Step

__all__ = [
    "Consistency",
    "HeldOut",
    "Record",
    "Score",
    "Step",
    "auto",
    "consistency_test",
    "evidence",
    "evident_penalty",
    "held_out",
    "held_out_once",
    "honest_score",
    "maximise",
    "moments",
]
