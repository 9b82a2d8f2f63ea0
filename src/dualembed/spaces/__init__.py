"""Function spaces. Each serves as primal or dual, in any mixture: a space moves by slopes at points."""

from dualembed.deprecation import renamed
from dualembed.spaces.base import Function, FunctionSpace, Layout, Regulariser, Update
from dualembed.spaces.basis import Affine, Basis, Table
from dualembed.spaces.doubly_stochastic import DoublyStochastic
from dualembed.spaces.fourier import Fourier
from dualembed.spaces.linear import LinearFunction, LinearSpace, Preconditioned
from dualembed.spaces.network import Network
from dualembed.spaces.nystrom import Nystrom
from dualembed.spaces.rkhs import RKHS

__all__ = [
    "RKHS",
    "Affine",
    "Basis",
    "DoublyStochastic",
    "Fourier",
    "Function",
    "FunctionSpace",
    "Layout",
    "LinearFunction",
    "LinearSpace",
    "Update",
    "Network",
    "Nystrom",
    "Preconditioned",
    "Regulariser",
    "Table",
]

__getattr__ = renamed(__name__, {"Move": "Update"})
