"""Judging and choosing functions from single samples, with no ground truth."""

from dualembed.deprecation import renamed
from dualembed.selection.automatic import auto
from dualembed.selection.consistency import Consistency, consistency_test
from dualembed.selection.evidence import evidence, maximise, moments
from dualembed.selection.held_out import HeldOut, held_out, held_out_once
from dualembed.selection.honest_score import Score, honest_score
from dualembed.selection.penalties import evidence_penalty
from dualembed.solvers.base import Choice, Record, Selection

__all__ = [
    "Choice",
    "Consistency",
    "HeldOut",
    "Record",
    "Score",
    "Selection",
    "auto",
    "consistency_test",
    "evidence",
    "evidence_penalty",
    "held_out",
    "held_out_once",
    "honest_score",
    "maximise",
    "moments",
]

__getattr__ = renamed(__name__, {"Step": "Choice", "evident_penalty": "evidence_penalty"})
