"""Which cases are in ``make test``; the others get the marker ``full``, and ``make test-all`` runs them too.

``make check`` has the laws of the code, ``make test`` a part of every test that covers what it is about, ``make
test-all`` everything. What leaves ``make test`` is declared below, in one of two ways:

- ``GRIDS``: of a parameter grid some cases stay. ``least`` keeps the federations that between them take every row of
  all transition tables, and every task, family, mode, split and trust (``tests/protocol/cases.py``, which
  ``tests/protocol/test_tables.py`` runs and compares), with all schedules. ``once`` keeps cases that between them have
  every value of every parameter, a diagonal through the grid. ``dealt`` keeps each of scikit-learn's
  checks twice, dealt out to the estimators.
- ``COVERED``: a test that starts processes or computes for seconds goes whole where another one, which stays, takes the
  same way through the code: a rung keeps one job.

Tests of ``tests/adversary`` and ``tests/conformance`` stay whole. Laws depend on the values of a case alone, not on the
order of collection, because every worker of a run must come to the same list.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pytest


@dataclass(frozen=True)
class Case:
    """One case of a grid: the place of its value in the list of each parameter, values that are words, and its name."""

    indices: tuple[tuple[str, int], ...]
    words: frozenset[str] = frozenset()
    name: str = ""


MARKED = ("slow", "scale", "torch", "full")
Law = Callable[[Sequence[Case]], set[int]]  # places of the cases that stay


def once(cases: Sequence[Case]) -> set[int]:
    """Cases that have every value of every parameter, each chosen for the most values that no other one has yet."""
    left = {pair for case in cases for pair in case.indices}
    order = sorted(range(len(cases)), key=lambda place: cases[place].indices)
    kept: set[int] = set()
    while left:
        best = max(order, key=lambda place: len(left.intersection(cases[place].indices)))
        kept.add(best)
        left -= set(cases[best].indices)
    return kept


def dealt(count: int, sign: str) -> Law:
    """Of a list of pairs, named ``first sign second``: each second one ``count`` times, dealt out to the first ones."""

    def law(cases: Sequence[Case]) -> set[int]:
        pairs = {place: case.name.partition(sign)[::2] for place, case in enumerate(cases)}
        order = sorted(pairs, key=lambda place: cases[place].indices)
        used: Counter[str] = Counter()
        kept: set[int] = set()
        for second in dict.fromkeys(pairs[place][1] for place in order):
            those = [place for place in order if pairs[place][1] == second]
            for place in sorted(those, key=lambda place: used[pairs[place][0]])[:count]:
                used[pairs[place][0]] += 1
                kept.add(place)
        return kept

    return law


def named(kept: Iterable[str], every: Iterable[str]) -> Law:
    """Keep cases that have no name beyond these among their values."""
    others = set(every) - set(kept)

    def law(cases: Sequence[Case]) -> set[int]:
        return {place for place, case in enumerate(cases) if not case.words & others}

    return law


def least(cases: Sequence[Case]) -> set[int]:
    """Keep the least set of federations, with all schedules and numbers of users that a grid has for them."""
    from tests.protocol.cases import CASES, LEAST  # where such a grid is collected it is imported already

    return named(LEAST, CASES)(cases)


def least_golden(cases: Sequence[Case]) -> set[int]:
    """The same of recorded texts, which are named after files."""
    from tests.golden.surfaces import slug
    from tests.protocol.cases import CASES, LEAST

    def files(names: Iterable[str]) -> list[str]:
        return [f"cases/{slug(name)}.txt" for name in names]

    return named(files(LEAST), files(CASES))(cases)


GRIDS: dict[str, Law] = {
    "tests/protocol/test_interleavings.py::*": least,
    "tests/protocol/test_effects.py::*": least,
    "tests/protocol/test_steps.py::*": least,
    "tests/protocol/test_step_messages.py::*": least,
    "tests/protocol/test_tables.py::*": least,
    "tests/protocol/test_labels.py::*": least,
    "tests/protocol/test_one_plan.py::*": least,
    "tests/protocol/test_job_files_of_cases.py::*": least,
    "tests/golden/test_golden.py::test_what_people_read_is_as_recorded": least_golden,
    "tests/unit/protocol/test_openings.py::*": least,
    "tests/unit/results/test_outputs.py::*": least,
    "tests/unit/estimators/test_sklearn_checks.py::*": dealt(2, "-check_"),
    "tests/unit/*": once,
    "tests/e2e/test_exactness*": once,
    "tests/paper/*": once,
}
"""Patterns of test functions, as pytest names them, and their laws; of several the first counts."""

RUNGS = {
    "one process": "tests/e2e/test_cli.py::test_three_hospitals_from_job_file_to_scores_of_a_new_patient",
    "processes of one machine": "tests/e2e/test_local_rung.py::test_three_parties_and_an_authority_*",
    "a rehearsed federation": "tests/e2e/test_rehearsal.py::test_five_commands_lead_from_nothing_to_verified_results",
    "institutions, from Python": "tests/e2e/test_fit_between_institutions.py::test_a_study_of_split_rows_*",
    "a killed party": "tests/e2e/test_lost_party.py::test_a_killed_party_is_noticed_while_the_csp_computes",
}
"""The job of each rung that stays."""

COVERED: dict[str, str] = {
    # Other jobs among processes: other tasks, tables and endings, each of which has its tests in one process.
    "tests/e2e/test_authority_leaves.py::*": "tests/unit/service/test_csp.py",
    "tests/e2e/test_cli.py::test_rows_in_another_order_*": "tests/unit/cli/test_rows.py",
    "tests/e2e/test_cli.py::test_the_same_options_*": "tests/unit/cli/test_studies.py",
    "tests/e2e/test_cli.py::test_three_companies_*": "tests/unit/cli/test_studies.py",
    "tests/e2e/test_dictionary.py::*": "tests/unit/studies/test_job_file.py",
    "tests/e2e/test_fit_between_institutions.py::test_a_party_*": "tests/e2e/test_fit_between_institutions.py",
    "tests/e2e/test_fit_between_institutions.py::test_a_researcher_*": "tests/adversary/test_handed_over.py",
    "tests/e2e/test_fit_between_institutions.py::test_one_party_*": "tests/adversary/test_handed_over.py",
    "tests/e2e/test_fit_on_a_federation.py::*": "tests/e2e/test_fit_between_institutions.py",
    "tests/e2e/test_foreign_task.py::test_a_rehearsed_federation_*": "tests/e2e/test_foreign_task.py",
    "tests/e2e/test_foreign_task.py::test_on_the_local_rung_*": "tests/e2e/test_foreign_task.py",
    "tests/e2e/test_foreign_task.py::test_the_command_line_*": "tests/e2e/test_foreign_task.py",
    "tests/e2e/test_foreign_task.py::test_the_same_statistic_on_processes_*": "tests/e2e/test_foreign_task.py",
    "tests/e2e/test_glm.py::*": "tests/unit/roles/test_glm.py",
    "tests/e2e/test_local_rung.py::test_a_job_file_runs_*": "tests/e2e/test_local_rung.py",
    "tests/e2e/test_local_rung.py::test_rows_that_are_not_compared_*": "tests/unit/cli/test_rows.py",
    "tests/e2e/test_matched_records.py::*": "tests/protocol/test_matching.py",
    "tests/e2e/test_stages.py::*": "tests/unit/studies/test_joint_preparation.py",
    "tests/e2e/test_tables_of_columns.py::*": "tests/unit/estimators/test_inference_on_columns.py",
    # Trouble among processes: `make chaos` runs it too.
    "tests/e2e/test_damaged_calls.py::*": "tests/e2e/test_transport_callers.py",
    "tests/e2e/test_interruption.py::*": "tests/unit/cli/test_endings.py",
    "tests/e2e/test_lost_party.py::test_a_party_that_was_done_*": "tests/e2e/test_lost_party.py",
    "tests/e2e/test_lost_party.py::test_no_submitted_job_*": "tests/e2e/test_lost_party.py",
    "tests/e2e/test_many_callers.py::*": "tests/unit/service/test_csp.py",
    "tests/e2e/test_presence.py::*": "tests/e2e/test_lost_party.py",
    "tests/e2e/test_random_kills.py::*": "tests/e2e/test_lost_party.py",
    "tests/e2e/test_rehearsal.py::test_a_port_*": "tests/e2e/test_rehearsal.py",
    "tests/e2e/test_rehearsal.py::test_when_one_role_*": "tests/e2e/test_rehearsal.py",
    "tests/e2e/test_self_check.py::*": "tests/unit/service/test_doctor.py",
    "tests/e2e/test_torn_tables.py::*": "tests/unit/studies/test_torn_tables.py",
    # Pages as a reader sees and types them, and larger studies.
    "tests/docs/test_examples.py::test_a_notebook_runs_*": "tests/docs/test_doctests.py",
    "tests/docs/test_site.py::*": "tests/docs/test_pages.py",
    "tests/docs/test_snippets.py::test_a_federation_in_five_commands_*": "tests/e2e/test_rehearsal.py",
    "tests/docs/test_snippets.py::test_the_first_rung_*": "tests/docs/test_commands.py",
    "tests/e2e/test_dashboard_in_chromium.py::*": "tests/unit/service/test_api.py",
    "tests/e2e/test_report_in_chromium.py::*": "tests/unit/results/report/test_page.py",
    "tests/e2e/test_readme_commands.py::test_a_command_of_the_readme": "tests/docs/test_commands.py",
    "tests/e2e/test_exactness.py::test_fifty_users_*": "tests/e2e/test_exactness.py",
    "tests/e2e/test_exactness_regression.py::test_fifty_users_*": "tests/e2e/test_exactness_regression.py",
    "tests/e2e/test_real_data.py::test_movielens_*": "tests/e2e/test_real_data.py",
    "tests/unit/cli/test_reproduce.py::test_a_run_*": "tests/unit/lab/test_experiments.py",
    "tests/unit/estimators/test_hunt.py::test_a_gamma_model_whose_whole_steps_*": "tests/unit/statistics/test_glm.py",
    "tests/unit/data/test_source_memory.py::*": "tests/unit/data/test_source_conformance.py",
    "tests/unit/engine/test_cluster.py::test_*": "tests/unit/engine/test_parts.py",
    "tests/unit/lab/test_attacks.py::test_p_values_over_many_runs_*": "tests/unit/lab/test_attacks.py",
    "tests/unit/lab/test_scale.py::*": "tests/unit/lab/test_experiments.py",
    "tests/unit/lab/test_reproduce.py::*": "tests/unit/lab/test_experiments.py",
}
"""Patterns of tests that go whole, and a file whose tests stay and take the same way through the code."""


def law_of(function: str) -> Law | None:
    if matching(function, COVERED) is not None:
        return nothing
    pattern = matching(function, GRIDS)
    return None if pattern is None else GRIDS[pattern]


def matching(function: str, patterns: Iterable[str]) -> str | None:
    return next((pattern for pattern in patterns if fnmatchcase(function, pattern)), None)


def nothing(cases: Sequence[Case]) -> set[int]:
    """No case stays."""
    return set()


def beyond(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The items that are not in ``make test``."""
    grids: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        # What is marked is not in ``make test``, and must not be chosen to stand for others there.
        if not any(item.get_closest_marker(mark) for mark in MARKED):
            grids[item.nodeid.partition("[")[0]].append(item)
    for function, cases in grids.items():
        if (law := law_of(function)) is not None:
            kept = law(cases_of(cases))
            yield from (item for place, item in enumerate(cases) if place not in kept)


def cases_of(items: Sequence[pytest.Item]) -> list[Case]:
    """The cases of one function. A test without parameters is a grid of one case.

    pytest numbers the cases and not the values, so values are numbered here, as they come in the order of definition;
    what one ``parametrize`` gives together is one value.
    """
    numbers: dict[str, dict[tuple[int, ...], int]] = defaultdict(dict)
    found: dict[int, Case] = {}
    for place in sorted(range(len(items)), key=lambda place: _defined_as(items[place])):
        given = getattr(items[place], "callspec", None)
        if given is None:
            found[place] = Case((("", 0),))
            continue
        indices = []
        for names in _given_together(items[place]):
            value = tuple(id(given.params[name]) for name in names)
            indices.append((",".join(names), numbers[",".join(names)].setdefault(value, len(numbers[",".join(names)]))))
        words = frozenset(value for value in given.params.values() if isinstance(value, str))
        found[place] = Case(tuple(sorted(indices)), words, given.id)
    return [found[place] for place in range(len(items))]


def _defined_as(item: pytest.Item) -> list[tuple[str, int]]:
    given = getattr(item, "callspec", None)
    return [] if given is None else sorted(given.indices.items())


def _given_together(item: pytest.Item) -> list[tuple[str, ...]]:
    left = dict.fromkeys(item.callspec.params)
    groups = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = names.replace(" ", "").split(",") if isinstance(names, str) else names
        groups.append(tuple(name for name in names if name in left))
        left = {name: None for name in left if name not in names}
    return [group for group in (*groups, *((name,) for name in left)) if group]
