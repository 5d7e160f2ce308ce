"""The section of survival curves: medians, restricted means, the comparison of groups, how far counts are off."""

from collections.abc import Iterator

from fedsvd.protocol.tasks import RankTest, Task
from fedsvd.results.drawings.survival import at_risk
from fedsvd.results.report.figures import figures
from fedsvd.results.report.sections import Section, columns_grid
from fedsvd.results.result import PartyResult
from fedsvd.results.survival_tables import Curves


def survival_sections(result: PartyResult) -> Iterator[Section]:
    """What came out, where the reader holds the joint counts of curves."""
    if result.task is not Task.SURVIVAL or "counts" not in result.arrays:
        return
    found, words = Curves.in_result(result), tuple(in_words(result))
    table = columns_grid("Curves", found.rows(), ".6g", none="")
    yield Section("survival", "Survival", words, figures(result, "survival"), (at_risk(found),), first=(table,))


def in_words(result: PartyResult) -> Iterator[str]:
    """How counts were opened, and the comparison of groups."""
    rounded, test = result.facts.get("rounded"), result.facts.get("test")
    if rounded is not None:
        yield (
            f"Counts are in multiples of {rounded['least_count']}, as each party rounded its own: a joint count is off "
            f"by at most {rounded['most_off']} records (standard deviation {rounded['deviation']:.1f})."
        )
    if test is not None:
        causes = result.facts.get("causes")
        yield test_in_words(test) + (f" It is of the hazard of {causes[0]!r}, other causes censored." if causes else "")


def test_in_words(test: dict[str, object]) -> str:
    """The comparison within sites, as a sentence."""
    if test["statistic"] is None:
        return f"The {test['test']} test within sites compares nothing: no event was seen next to another group."
    freedom = "1 degree" if test["df"] == 1 else f"{test['df']} degrees"
    chi = f"chi-squared {test['statistic']:.4g} on {freedom} of freedom, p = {test['p']:.3g}"
    name = str(test["test"])
    called = name.capitalize() if name == RankTest.LOG_RANK else name.title()  # the others are names of persons
    return f"{called} test within sites: {chi}."
