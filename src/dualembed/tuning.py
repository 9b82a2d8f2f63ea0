"""Every number that was tuned: what it trades, and what was measured for it.

Sizes of tiles and blocks are not here, since they change nothing but time and memory, nor are the thresholds of
verdicts (`answers.answer.VerdictRules`). "The suite" is `dualembed bench answers`, in ratios of root mean squared
errors to the best rival's.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Search:
    """How models are searched for, by ridge paths and by evidence, and how their errors are made.

    Attributes
    ----------
    groups : int
        Groups of rows that influences are taken over. More give a variance more degrees of freedom, and take memory.
    left_out : int
        Groups that solutions are made without, each a part of `groups`. More make the jackknife steadier, at a solve
        of every candidate each. With 10, 225 of 240 intervals of the suite's logged policies cover, and 292 of 300 of
        others.
    fewest_groups : int
        Labels below which rows are cut into blocks instead: a jackknife over fewer knows next to nothing.
    most_of_rows : float
        Share of the rows that one label may have, beyond which blocks stand for groups as well.
    ridges : tuple of float
        Ridges of a path, as shares of a feature's mean square. A path ends by itself where smaller ones are hopeless.
    largest_unbounded : float
        The largest ridge where f grows without bounds as the process gets slow. Of the long-run law of 100 states in
        two wells (56,468 steps apart, 50,000 rows, seeds 0 to 3) larger ones made the share of one well 0.50 ± 0.003 to
        0.02, whatever the counts of transitions said; without them it is 0.24 ± 0.11 to 0.66 ± 0.13, as counts have it.
    bias : float
        How often the square of a ridge's estimated bias counts in squared errors: the estimate is rough, and biases
        that are too small by half would be believed. Other factors were not tried.
    hopeless : float
        A path ends where errors are so many times the least so far, twice in a row: time against a candidate that
        would have weighed next to nothing, 1 in 600. Not measured by itself.
    settled : float
        A path ends where the square of a move is so small a share of the sampling variance, twice in a row. Not
        measured by itself.
    headline : float
        How much of a candidate's weight the headline decides; the places of the data decide the rest. 0.7
        instead of 0.5, together with `known_noise`, took off-policy ratios from 1.13 to 0.98 (40 cases, seeds 9000 on;
        chosen on seeds below 320).
    wrong_sign : float
        Squared error of the logarithm that a candidate has where f should be above zero and is not.
    negligible : float
        Weight below which a candidate is left out: it only takes memory.
    probes : int
        Places at which candidates are weighed.
    landmarks : int
        Landmarks of a kernel, of all actions together. Time grows with their cube. Where 400 are drawn moves answers
        by 0.4 of a standard error; 800 did not mend what a sharp policy's values miss.
    known_landmarks : int
        Landmarks of the regression that becomes the known part of f.
    known_rows : int
        Rows that choose its kernel, and whether there is such a part at all, where there are more.
    known_noise : float
        Share of the target's variance that this regression may leave. With 0.9, rewards that are rare or noisy put
        the regression's own error into every answer (see `headline`).
    screened : int
        Rows from which on kernels are chosen among more: the choice takes time, and needs rows to be left out.
    screen_rows, screen_landmarks, screen_left_out : int
        Size of that choice: it takes about as long as the fit.
    kept_kernels : int
        Kernels that it leaves at most.
    least_merit : float
        Weight that each of them must have.
    most_stretched : float
        Ratio of two coordinates' length-scales at most: slopes of a pilot are rough.
    evidence_budget : int
        Kernel values in one evaluation of the evidence, which bounds the rows of its search.
    evidence_rows : tuple of int
        Rows of the search, at least and at most.
    final_rows : int
        Rows that instruments are made orthonormal on.
    rougher : float
        Preference for the rougher kernel, in log evidence. Gaussian kernels alone are as accurate, but their bands
        cover less (docs/maths.md).
    lack_of_fit : float
        Standard deviations of what a richer dual still predicts, beyond which spaces grow: time
        against lack of fit.
    unspanned : float
        Share of the kernel's variance that landmarks may miss.
    final_landmarks : tuple of int
        Landmarks of the fit, at least and at most.
    rows_a_landmark : int
        Rows for each of them in between.
    most_negative : float
        Lowest eigenvalue of products across folds over the penalty, below which all rows are multiplied together:
        with more noise than signal, the cure does more harm than the bias.
    few_moments : float
        Moments a row of a regression, up to which all rows are multiplied together: products across folds are noisier
        (0.95 to 1.3 times the error with 0.005 to 0.02 moments a row, of most designs), and the bias is small.
    few_moments_of_trends : float
        The same where f is a polynomial, which has few numbers to be told by them: products across folds had 23 times
        the error for a cubic with two instruments, 500 rows (0.05 moments a row; eight seeds from 404 on with the
        largest errors), and none of the gain that they have for sines and steps there (0.86 and 0.91 of the error).
    some_noise : float
        Share of noise in what moments tell of slopes, up to which the same holds: with weak instruments few moments
        are many. With 0.05 the error of seven curves, 500 rows, was 1.07 to 1.2 times as large (cubic 2.8 times), seeds
        0 to 5: a tenth of the bias of least squares is less than the noise of products across folds.
    some_noise_of_trends : float
        The same where f is a polynomial, which stands more: with 0.1 the error of a cubic was 1.1 times as large
        (500 rows, one instrument, seeds 430 to 443), and other polynomials' the same.
    little_noise : float
        The same share, beyond which f is taken for partially linear where it is as large even of few moments; without
        controls it is `some_noise`. With one instrument of R² 0.01, 1,000 rows and no controls, the rms error of the
        slope is then 0.27, not 0.80 (seeds 0 to 15; two-stage least squares 0.27).
    most_noise : float
        The same share of few moments, beyond which these are not taken, unless the many have more: what moves x is then
        no line in the instruments.
    fitted_too_well : float
        Mean square of residuals left out over that of fitted ones, beyond which errors are widened by the ratio.
    most_widened : float
        That ratio at most: beyond it there is no noise to speak of.
    judged_weight : float
        Weight that a candidate must have to be fitted again without folds, for the honest error: time against the
        error of an average that lacks its smallest parts.
    wider_band : float
        How much wider bands of several coordinates are than what is unknown of f makes them: smooth parts have the same
        length-scales everywhere, and the largest error is where f has shorter ones. On the demand design, 500 and 2,000
        rows, seeds 303 to 310, the largest error at 2,520 places was 0.7 to 1.2 times the band without it, one of 1.6
        aside, which was outside for 4 of 16 samples.
    without_noise : float
        Mean square of residuals over that of targets, below which there is no noise to widen.
    digits : float
        Share of an answer that no standard error is below: what happens once in a million steps no log can rule out.
    """

    groups: int = 40
    left_out: int = 10
    fewest_groups: int = 5
    most_of_rows: float = 0.5
    ridges: tuple[float, ...] = tuple(10.0**-power for power in range(11))
    largest_unbounded: float = 1e-3
    bias: float = 4.0
    hopeless: float = 25.0
    settled: float = 1e-3
    headline: float = 0.7
    wrong_sign: float = 100.0
    negligible: float = 1e-4
    probes: int = 300
    landmarks: int = 400
    known_landmarks: int = 300
    known_rows: int = 20_000
    known_noise: float = 0.1
    screened: int = 5000
    screen_rows: int = 4000
    screen_landmarks: int = 200
    screen_left_out: int = 5
    kept_kernels: int = 3
    least_merit: float = 0.02
    most_stretched: float = 10.0
    evidence_budget: int = 750_000
    evidence_rows: tuple[int, int] = (2000, 5000)
    final_rows: int = 20_000
    rougher: float = 1.0
    lack_of_fit: float = 5.0
    unspanned: float = 0.01
    final_landmarks: tuple[int, int] = (500, 1000)
    rows_a_landmark: int = 20
    most_negative: float = -4.0
    few_moments: float = 0.03
    few_moments_of_trends: float = 0.1
    some_noise: float = 0.1
    some_noise_of_trends: float = 0.2
    little_noise: float = 0.05
    most_noise: float = 0.5
    fitted_too_well: float = 1.5
    most_widened: float = 100.0
    judged_weight: float = 0.02
    wider_band: float = 1.25
    without_noise: float = 1e-4
    digits: float = 1e-6


SEARCH = Search()
"""The numbers in force."""


@dataclasses.dataclass(frozen=True)
class HyperPrior:
    """How probable hypotheses about f are before any data are seen.

    Attributes
    ----------
    families : tuple of float
        Of Gaussian, Matérn 5/2, Matérn 3/2 and exponential smooth parts, in proportion.
    no_smooth_part : float
        Probability that f is a polynomial.
    width, width_spread : float
        Length-scale in standard deviations of the column, log-normal.
    amplitude, amplitude_spread : float
        Variance of the smooth part over what the richest trend leaves of y, log-normal.
    trends : tuple of float
        Probabilities of a quadratic and of a cubic part where there is no smooth one.
    trends_beside : tuple of float
        The same beside a smooth part, which can bend by itself: a cubic trend beside it would extrapolate wildly (the
        error of sin x with two instruments, 2,000 rows, falls from 1.27 to 1.22 times that of smooth parts alone).
    """

    families: tuple[float, float, float, float]
    no_smooth_part: float
    width: float
    width_spread: float
    amplitude: float
    amplitude_spread: float
    trends: tuple[float, float] = (0.25, 0.25)
    trends_beside: tuple[float, float] = (0.05, 0.01)


@dataclasses.dataclass(frozen=True)
class Hypotheses:
    """Which hypotheses about f are weighed by evidence.

    Attributes
    ----------
    mean : HyperPrior
        For f itself. Chosen on eight designs of one and six of two instruments, 500 and 2,000 rows, seeds 0 to 5.
    error : HyperPrior
        For the error of f: rougher, since data hardly tell a jump from a slope. Two smooth families alone covered 0.73
        of a step; with this one it is 0.88 to 0.93, and smooth functions' are 1.7 times as wide. Curved trends alone
        are less probable than for f: a kink passes for a parabola now and then (coverage of |x|, 2,000 rows, one and
        two instruments, seeds 200 to 205: 0.92 with a quarter for a quadratic one, 0.97 with a twentieth). A quarter of
        the amplitude makes intervals narrower by a tenth to a fifth, and those of a step cover 0.74 to 0.88.
    widths : tuple of float
        Length-scales of functions of one column, in its standard deviations.
    factors : tuple of float
        Of the length-scales that a search found, for functions of several columns.
    amplitudes, wide_amplitudes : tuple of float
        Variances of the smooth part over what the richest trend leaves, for one column and for several.
    few_columns : int
        Columns up to which a slope may be as large as y varies; of more, each may also be small.
    asked_slope : float
        Variance of the slope of a treatment, over that of y: an effect that instruments tell little of is not drawn to
        0 by the slopes of controls. It took the return to schooling in Card's data from 0.037 to 0.049.
    negligible : float
        Probability against the largest, below which a hypothesis is left out.
    """

    mean: HyperPrior = HyperPrior((1.0, 1.0, 0.5, 0.25), 0.2, 1.25, 0.6, 0.3, 1.2)
    error: HyperPrior = HyperPrior((0.6, 1.0, 1.0, 0.6), 0.05, 1.5, 1.0, 0.4, 1.2, trends=(0.05, 0.1))
    widths: tuple[float, ...] = (0.15, 0.27, 0.5, 0.9, 1.6, 2.9, 5.2)
    factors: tuple[float, ...] = (0.5, 0.75, 1.0, 1.33, 2.0)
    amplitudes: tuple[float, ...] = tuple(10 ** (power / 2) for power in range(-6, 3))
    wide_amplitudes: tuple[float, ...] = tuple(10 ** (power / 2) for power in range(-6, 7))
    few_columns: int = 4
    asked_slope: float = 4.0
    negligible: float = 0.01


HYPOTHESES = Hypotheses()
"""The numbers in force."""
