"""Distributions as points of an RKHS, from samples: mean, joint and conditional embeddings, all in float64.

    μ_P = E k(z, ·) ≈ Σ_i w_i k(z_i, ·)            ⟨μ_P, f⟩ = E f(z)
    C   = E k(x, ·) ⊗ l(z, ·)                      ⟨f, C g⟩ = E f(x) g(z)
    μ(x) = E[l(z, ·) | x] ≈ Σ_i β_i(x) l(z_i, ·)   ⟨μ(x), g⟩ = E[g(z) | x]

Smola, Gretton, Song and Schölkopf (2007); Song, Fukumizu and Gretton (2013).
"""

from __future__ import annotations

from dualembed.embeddings.conditional import (
    EXACT,
    PENALTIES,
    TARGETS,
    ConditionalEmbedding,
    FeatureSmoother,
    KernelSmoother,
    Smoother,
)
from dualembed.embeddings.samples import TILE, JointEmbedding, MeanEmbedding, Values

__all__ = [
    "EXACT",
    "PENALTIES",
    "TARGETS",
    "TILE",
    "ConditionalEmbedding",
    "FeatureSmoother",
    "JointEmbedding",
    "KernelSmoother",
    "MeanEmbedding",
    "Smoother",
    "Values",
]
