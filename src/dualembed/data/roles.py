"""What columns may mean to an estimator: one role each, with its option on the command line."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable

MOST_LEVELS = 64  # of a category
MOST_STATES = 1000  # of one that is all there is of a state


class Kind(enum.Enum):
    """What the columns of a role hold."""

    TABLE = "table"  # numbers or categories, in one column or several
    ACTION = "action"  # the same, of actions: whole numbers and labels are discrete
    NUMBER = "number"
    MARK = "mark"  # 0 or 1
    LABEL = "label"  # anything; equal labels belong together
    LABELS = "labels"  # the same, in one column or two


@dataclasses.dataclass(frozen=True)
class Role:
    """A meaning of columns: `name` is the argument of `fit`, `option` names its columns on the command line.

    What `follows` another role has a column for each of its columns, in the same units. `aliases` are names that other
    libraries have for it, `logarithms` those of its logarithm, `former` the words of options that it once had, and
    `synonyms` those of further options. An `explicit` one is never taken from a column of its name alone, which may
    mean anything, and the aliases of one that is `within` another count beside columns of that one only.
    """

    name: str
    option: str
    kind: Kind
    help: str
    follows: str | None = None
    aliases: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    explicit: bool = False
    logarithms: tuple[str, ...] = ()
    within: str | None = None

    @property
    def word(self) -> str:
        """What a column of this role alone is called where nothing else is said.

        >>> ROLES["next_states"].word
        'next_state'
        """
        return self.option.removeprefix("--").replace("-", "_")

    @property
    def several(self) -> bool:
        """Whether several columns may have this role together."""
        return self.kind in (Kind.TABLE, Kind.ACTION, Kind.LABELS)

    @property
    def options(self) -> list[str]:
        """The options that name its columns on the command line."""
        return [self.option, *(f"--{word}" for word in self.synonyms)]


ROLES: dict[str, Role] = {
    role.name: role
    for role in (
        Role("states", "--state", Kind.TABLE, "Where the process is.", aliases=("observations", "obs")),
        Role("actions", "--action", Kind.ACTION, "What was done there."),
        Role("rewards", "--reward", Kind.NUMBER, "What it brought."),
        Role(
            "next_states",
            "--next-state",
            Kind.TABLE,
            "Where it led, one for each of --state.",
            follows="states",
            aliases=("next_observations", "next_obs", "new_obs"),
        ),
        Role(
            "next_actions",
            "--next-action",
            Kind.ACTION,
            "What the evaluated policy does at the next state.",
            follows="actions",
        ),
        Role(
            "terminated",
            "--terminated",
            Kind.MARK,
            "1 where nothing follows; 0 at a time limit.",
            aliases=("terminals", "terminations", "terminateds"),
        ),
        Role(
            "truncated",
            "--truncated",
            Kind.MARK,
            "1 where a time limit cut the episode.",
            aliases=("timeouts", "truncations", "truncateds"),
        ),
        Role(
            "importance_weights",
            "--weight",
            Kind.NUMBER,
            "Importance weights, for data of another policy.",
            aliases=("weights", "rho"),
            synonyms=("importance-weight",),
        ),
        Role(
            "propensities",
            "--propensity",
            Kind.NUMBER,
            "How likely the logged action was, under the policy that acted.",
            aliases=("pscore", "action_prob", "propensity_score", "action_probability"),
            logarithms=("action_logp", "infos/action_log_probs"),
        ),
        Role(
            "target_probabilities",
            "--target-probability",
            Kind.NUMBER,
            "How likely the evaluated policy is to take it: over --propensity, the importance weight.",
        ),
        Role(
            "episodes",
            "--episode",
            Kind.LABEL,
            "Label of rows of one episode: they follow, and depend on, each other.",
            aliases=("episode_ids", "episode_id", "eps_id"),
        ),
        Role(
            "groups",
            "--group",
            Kind.LABELS,
            "Label of rows that depend on each other, such as those of one clinic or of one day; of two ways for "
            "regressions, as in firm,year.",
            aliases=("clusters",),
            former=("episode",),
            synonyms=("cluster",),
        ),
        Role(
            "time",
            "--time",
            Kind.LABEL,
            "When it was: rows of an episode are in this order, those of iv one path in it.",
            aliases=("t", "timestep"),
            within="episodes",
        ),
        Role(
            "durations",
            "--duration",
            Kind.NUMBER,
            "How long the step took; then the unit of times.",
        ),
        Role(
            "observable",
            "--observable",
            Kind.NUMBER,
            "What is measured at each row, whose mean in the long run is asked for.",
        ),
        Role("X", "--x", Kind.TABLE, "Causes, whose effect is asked for."),
        Role("y", "--y", Kind.NUMBER, "The outcome."),
        Role("instruments", "--instrument", Kind.TABLE, "What moves x, and y through x only.", aliases=("Z",)),
        Role(
            "controls", "--control", Kind.TABLE, "What y depends on besides, moved by nothing hidden.", aliases=("W",)
        ),
        Role(
            "absorb",
            "--absorb",
            Kind.LABELS,
            "Levels, such as firm or firm,year, that each have an effect of their own on y, which is taken out.",
        ),
        Role(
            "sample_weight",
            "--sample-weight",
            Kind.NUMBER,
            "Weights of rows: whole numbers count equal rows; of iv, others are survey weights; see --weighting.",
            former=("weight",),
            explicit=True,
        ),
        Role("variations", "--variation", Kind.TABLE, "What x might as well have been.", follows="X"),
        Role("costs", "--cost", Kind.NUMBER, "What being in the state costs."),
        Role("terminal", "--terminal", Kind.MARK, "1 where the next state is an end."),
        Role("terminal_costs", "--terminal-cost", Kind.NUMBER, "What that end costs; 0 if left out."),
    )
}
"""Every role by its name."""

DEPRECATED = ("weights",)  # aliases that are no other library's, but our own for one release
PARAMETERS = {"gamma": "discount"}  # of constructors, by other libraries' names
_NO_END = "does not tell an end from a time limit, after which the value goes on; give terminated= and truncated="
REFUSED = {
    "dones": f"it {_NO_END}",
    "done": f"it {_NO_END}",
}
"""What other libraries have that has no place here, and what to give instead."""


def words_of(role: Role, roles: Iterable[Role]) -> list[str]:
    """The words for a role among the roles of a task: its own, and former ones that are no other's.

    >>> words_of(ROLES["groups"], [ROLES["groups"]]), words_of(ROLES["groups"], [ROLES["groups"], ROLES["episodes"]])
    (['group', 'episode'], ['group'])
    """
    taken = {each.word for each in roles}
    return [role.word, *(word for word in role.former if word not in taken)]


def role_named(name: str) -> str:
    """The role that an argument means, by its own name or by another library's; the name itself where it means none.

    >>> role_named("new_obs"), role_named("policy")
    ('next_states', 'policy')
    """
    return next((role.name for role in ROLES.values() if name in (*role.aliases, *role.logarithms)), name)
