"""Terms that are no columns of a model: Surv, strata, cluster, offset and random effects, as keys of a job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsvd.errors import ConfigError
from fedsvd.prepare.formula import parse


@pytest.mark.parametrize(
    ("text", "outcome", "options"),
    [
        ("Surv(time, event) ~ age", ("time",), {"event": "event"}),
        ("Surv(came, left, `seen it`) ~ age", ("left",), {"event": "seen it", "entry": "came"}),
        ("Surv(t, e) ~ 1", ("t",), {"event": "e"}),
        ("Surv(t, e) ~ age + strata(clinic) + offset(o)", ("t",), {"event": "e", "strata": "clinic", "offset": "o"}),
        ("Surv(t, e) ~ strata(site) + age", ("t",), {"event": "e"}),
        ("y ~ age + cluster(ward)", ("y",), {"cluster": "ward"}),
        ("y ~ age + (1 | id)", ("y",), {"subject": "id"}),
        ("y ~ age + (1 || id)", ("y",), {"subject": "id"}),
        ("y ~ (age | id) + age", ("y",), {"subject": "id", "slope": "age"}),
        ("y ~ age + (1 + `two words` || id)", ("y",), {"subject": "id", "slope": "two words", "correlated": False}),
        ("y ~ age + (age + dose | id)", ("y",), {"subject": "id", "slope": ["age", "dose"]}),
    ],
)
def test_terms_say_keys_of_a_job(text, outcome, options):
    found = parse(text)
    assert found.outcome == outcome
    assert found.beside.options == options
    beside = {name for name in found.beside.columns if name not in ("age", "dose")}
    assert not beside & set(found.variables), "what stands next to the outcome is no column of the model"


@pytest.mark.parametrize(
    ("text", "token", "fix"),
    [
        ("Surv(t) ~ a", "Surv(t)", "Surv(time, event)"),
        ("Surv(t, t) ~ a", "Surv(t, t)", "different columns"),
        ("Surv(t, e == 2) ~ a", "Surv(t, e == 2)", "coded 0 or 1"),
        ("Surv(a, b, c, d) ~ a", "Surv(a, b, c, d)", "Surv(start, stop, event)"),
        ("y ~ Surv(t, e)", "Surv(t, e)", "left of ~"),
        ("Surv(t, e) + y ~ a", "+", "y ~ age"),
        ("y ~ a:strata(b)", "strata(b)", "alone"),
        ("y ~ strata(b):a", "strata(b)", "alone"),
        ("y ~ strata(b) * a", "strata(b)", "alone"),
        ("y ~ (a + strata(b))", "strata(b)", "alone"),
        ("y ~ a - strata(b)", "strata(b)", "alone"),
        ("y ~ a + strata(log(b))", "strata(log(b))", "one column"),
        ("y ~ a + strata(b, c)", "strata(b, c)", "one column"),
        ("y ~ a + offset(2 * b)", "offset(2 * b)", "one column"),
        ("strata(b) ~ a", "strata(b)", "left of ~"),
        ("y ~ a + (0 + b | id)", "0", "has an intercept"),
        ("y ~ a + (log(b) | id)", "log(b)", "of columns"),
        ("y ~ a + (b * c | id)", "c", "of columns"),
        ("y ~ a + (1 | id:b)", "id", "of columns"),
        ("y ~ a + (1 | site)", "site", "a fixed one, y ~ age + site"),
        ("y ~ a + (1 |)", "|", "of columns"),
        ("y ~ a + (| id)", "|", "of columns"),
        ("y ~ a + (1 | id) + (1 | ward)", "|", "one random term"),
        ("y ~ a:(1 | id)", "|", "alone"),
        ("y ~ (1 | id):a", "|", "alone"),
        ("y ~ a - (1 | id)", "|", "alone"),
        ("y ~ a | b", "|", "(1 | patient)"),
        ("y ~ a || b", "||", "brackets"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_token(text, token, fix):
    with pytest.raises(ConfigError) as found:
        parse(text)
    places = [place + 1 for place in range(len(text)) if text.startswith(token, place)]
    assert found.value.fault in [f"the formula cannot be read at {token!r} (character {place})" for place in places]
    assert fix in found.value.fix


def test_two_strata_are_refused():
    with pytest.raises(ConfigError, match=r"strata\(...\) twice"):
        parse("y ~ a + strata(b) + strata(c)")


@given(
    st.permutations(["a", "b:c", "log(d)", "strata(s)", "offset(o)", "(1 + v | id)"]),
    st.sampled_from(["y", "Surv(t, e)"]),
)
def test_terms_of_the_model_are_the_same_wherever_the_others_stand(terms, left):
    plain = [term for term in terms if term in ("a", "b:c", "log(d)")]
    found, without = parse(f"{left} ~ {' + '.join(terms)}"), parse(f"{left} ~ {' + '.join(plain)}")
    assert (found.terms, found.variables, found.intercept) == (without.terms, without.variables, without.intercept)
    assert found.beside.strata == "s"
    assert found.beside.slopes == ("v",)
