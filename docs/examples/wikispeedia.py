"""How many clicks from one article to another? Hitting times of a random surfer, for pairs of articles.

    python docs/examples/wikispeedia.py --figure docs/images/example_wikispeedia.png

A surfer reads one of 4,592 articles, clicks on one of its links, and now and then, one time in seven or where there are
no links, opens any article at random. h(s, t) is the mean number of clicks from article s until t is first read, and
1 / h(t, t) the share of the time that t is read: its PageRank. Clicks are seen one at a time, each by itself: from
where, and where to. Nothing is known of the links, of how articles are chosen, or of longer paths. Where the links are
known, sparse linear algebra gives both exactly, for the check.

The graph is that of R. West and J. Leskovec, Human Wayfinding in Information Networks, WWW 2012.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

import dualembed as de

DATA = Path(os.environ.get("DUALEMBED_DATA", Path(__file__).parents[3] / "shared" / "data"))
LINKS = DATA / "markov" / "wikispeedia_links.tsv.gz"
TARGETS = ("United_States", "Africa", "Mathematics", "Chemistry", "Chess", "Penguin")
FOLLOWS = 6 / 7  # how often the surfer clicks on a link, where there is one
CLICKS = 250_000
SHOWN = 300  # pairs of a target in the figure


class Graph(NamedTuple):
    """Articles by name, and the share (n, n) of an article's links that lead to each other one."""

    names: list[str]
    shares: sparse.csr_array

    @property
    def follows(self) -> np.ndarray:
        """How often the surfer clicks on a link of each article."""
        return FOLLOWS * (np.diff(self.shares.indptr) > 0)

    def number(self, name: str) -> int:
        """That of the article of this name."""
        return self.names.index(name)


def graph_of(file: Path, most: int | None = None) -> Graph:
    """The links between articles, each counted once; of so many articles, those with the most links to them."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        links = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    names, numbers = np.unique(np.array(links), return_inverse=True)
    if most is not None:
        kept = np.argsort(-np.bincount(numbers.reshape(-1, 2)[:, 1], minlength=len(names)), kind="stable")[:most]
        links = np.array(links)[np.isin(numbers.reshape(-1, 2), kept).all(axis=1)].tolist()
        names, numbers = np.unique(np.array(links), return_inverse=True)
    origins, ends = np.unique(numbers.reshape(-1, 2), axis=0).T
    counts = sparse.csr_array((np.ones(len(ends)), (origins, ends)), shape=(len(names), len(names)))
    out = np.maximum(counts.sum(axis=1), 1)
    return Graph([unquote(name) for name in names], sparse.csr_array(sparse.diags_array(1 / out) @ counts))


# Any article is opened from anywhere with one probability: of all articles together that is one more unknown, their
# mean, so that the system stays sparse.
def exact_times(graph: Graph, target: int) -> np.ndarray:
    """h(s, target) (n,) of every article s, the target's own being the time of return."""
    count = len(graph.names)
    known = np.arange(count) != target
    clicked = sparse.diags_array(graph.follows) @ graph.shares @ sparse.diags_array(known.astype(float))
    opened = (1 - graph.follows)[:, None]
    mean = known[None] / count
    system = sparse.block_array([[sparse.eye_array(count) - clicked, -opened], [-mean, np.eye(1)]], format="csc")
    return linalg.spsolve(system, np.append(np.ones(count), 0.0))[:count]


def exact_shares(graph: Graph) -> np.ndarray:
    """The share (n,) of the time that each article is read."""
    found = np.full(len(graph.names), 1 / len(graph.names))
    for _ in range(200):
        opened = float((1 - graph.follows) @ found)
        found = (graph.follows * found) @ graph.shares + opened / len(found)
    return found


# What n clicks from each article leave open, to first order: an article is read π(s) / π(t) times between two visits of
# t, and each time its click is worth what the mean over its own few clicks says, rather than over all there are.
def expected_error(graph: Graph, times: np.ndarray, ranks: np.ndarray, target: int, visits: np.ndarray) -> float:
    """The standard error of h(target, target), from exact times (n,), shares of the time (n,) and clicks seen (n,)."""
    left = np.where(np.arange(len(times)) == target, 0.0, times)

    def mean(values: np.ndarray) -> np.ndarray:
        return graph.follows * (graph.shares @ values) + (1 - graph.follows) * values.mean()

    variance = mean(left**2) - mean(left) ** 2
    return float(np.sqrt(np.sum((ranks / ranks[target]) ** 2 * variance / np.maximum(visits, 1))))


def clicks_of(graph: Graph, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(from where, where to) of so many clicks, each by itself, from articles at random."""
    origins = rng.integers(len(graph.names), size=count)
    starts, degrees = graph.shares.indptr[origins], np.diff(graph.shares.indptr)[origins]
    place = starts + np.floor(rng.random(count) * degrees).astype(int)
    linked = graph.shares.indices[np.minimum(place, graph.shares.nnz - 1)]
    follows = rng.random(count) < graph.follows[origins]
    return origins, np.where(follows, linked, rng.integers(len(graph.names), size=count))


# Every click is about every target: rows are all pairs of a click and a target. f and its witness are tables of
# pairs of articles, and the saddle point is one sparse system.
def learnt_times(clicks: tuple[np.ndarray, np.ndarray], targets: np.ndarray) -> de.spaces.base.Function:
    """h(s, t) as a function of pairs (n, 2) of numbers of articles."""
    rows = de.sources.Dataset(**de.problems.pairs(*clicks, targets))
    table = de.spaces.Table()
    return de.solve(0, de.Saddle(de.problems.HittingTime(rows), table, table), de.solvers.SparseForm()).primal


class Found(NamedTuple):
    """What was learnt of a target, and what is exact."""

    name: str
    arrivals: int
    learnt: np.ndarray  # h(s, t) for every article s (n,)
    exact: np.ndarray
    rank: float
    error: float  # that h(t, t) is expected to have, in its terms

    @property
    def miss(self) -> float:
        """The median over articles s of how far h(s, t) is from the exact number, in its terms."""
        return float(np.median(np.abs(self.learnt / self.exact - 1)))


def main(
    clicks: int = CLICKS, articles: int | None = None, names: tuple[str, ...] = TARGETS, figure: Path | None = None
) -> list[Found]:
    """What is found of each target, printed and drawn."""
    graph = graph_of(LINKS, articles)
    targets = np.array([graph.number(name) for name in names])
    seen = clicks_of(graph, np.random.default_rng(0), clicks)
    began = time.perf_counter()
    times = learnt_times(seen, targets)
    print(f"{clicks:,} clicks among {len(graph.names):,} articles, {time.perf_counter() - began:.0f} s")
    ranks, every = exact_shares(graph), np.arange(len(graph.names))
    visits = np.bincount(seen[0], minlength=len(every))
    found = []
    for name, target in zip(names, targets, strict=True):
        learnt = np.asarray(times(np.stack([every, np.full(len(every), target)], axis=1).astype(float)), dtype=float)
        exact = exact_times(graph, target)
        error = expected_error(graph, exact, ranks, target, visits) / exact[target]
        own = Found(name, int(np.sum(seen[1] == target)), learnt, exact, float(ranks[target]), error)
        print(
            f"{name}: {own.arrivals} clicks lead there; h(s, t) is off by {own.miss:.1%}; 1 / h(t, t) = "
            f"{1 / learnt[target]:.3%}, PageRank {own.rank:.3%} (expected to be off by {own.error:.1%})"
        )
        found.append(own)
    if figure is not None:
        draw(found, targets, figure)
    return found


def draw(found: list[Found], targets: np.ndarray, figure: Path) -> None:
    """Learnt against exact times of pairs, and shares of the time against PageRank."""
    from matplotlib import pyplot

    _, (left, right) = pyplot.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    rows = np.random.default_rng(0).permutation(len(found[0].exact))[:SHOWN]
    for number, own in enumerate(found):
        label = own.name.replace("_", " ")
        left.plot(own.exact[rows], own.learnt[rows], ".", color=f"C{number}", markersize=3, label=label)
        share = 1 / own.learnt[targets[number]]
        right.errorbar(own.rank, share, 2 * own.error * share, fmt="o", color=f"C{number}", capsize=3, label=label)
    for ax, unit in ((left, "clicks from s to t, h(s, t)"), (right, "share of the time, 1 / h(t, t)")):
        low, high = ax.get_xlim()
        ax.plot([low, high], [low, high], "--", color="#555555", linewidth=1)
        ax.set(xscale="log", yscale="log", xlabel=f"exact {unit}", ylabel=f"learnt {unit}")
    right.legend(frameon=False, fontsize=8, loc="upper left")
    pyplot.savefig(figure, dpi=110)
    pyplot.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, help="where to save the figure")
    main(figure=parser.parse_args().figure)
