"""``FederatedOrdinalRegression``: classes in an order, their probabilities, and what is refused."""

import numpy as np
import pytest
from tests.tolerances import PRINTED_BAR

from fedsvd import FederatedOrdinalRegression, Simulation
from fedsvd.errors import ConfigError, DataError

WORDS = np.array(["mild", "grave", "fatal"])


def patients(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 2))
    return X, np.digitize(X @ [0.8, -0.5] + rng.logistic(size=300), [-0.7, 0.7])


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_texts_with_levels_are_the_numbers_in_that_order():
    X, y = patients()
    where = Simulation(parties=3)
    numbers = FederatedOrdinalRegression(federation=where).fit(X, y)
    texts = FederatedOrdinalRegression(levels=WORDS, federation=where).fit(X, WORDS[y])
    assert np.abs(numbers.coef_ - texts.coef_).max() < PRINTED_BAR
    assert texts.classes_.tolist() == WORDS.tolist()
    assert texts.summary().names == ("x0", "x1", "mild|grave", "grave|fatal")
    assert [name for name, *_ in texts.summary().printed()] == ["x0", "x1"], "thresholds are no odds ratios"
    proba = texts.predict_proba(X)
    assert np.abs(proba.sum(axis=1) - 1.0).max() < PRINTED_BAR
    assert (texts.predict(X) == WORDS[proba.argmax(axis=1)]).all()
    by_hand = 1.0 / (1.0 + np.exp(-(texts.thresholds_[0] - X @ texts.coef_[0])))
    assert np.abs(proba[:, 0] - by_hand).max() < PRINTED_BAR


def test_what_has_no_order_is_refused():
    X, y = patients()
    with pytest.raises(ConfigError, match="texts, whose order is not known"):
        FederatedOrdinalRegression().fit(X, WORDS[y])
    with pytest.raises(DataError, match="levels do not name"):
        FederatedOrdinalRegression(levels=["mild", "grave", "none"]).fit(X, WORDS[y])
    with pytest.raises(ConfigError, match="y has 2 classes"):
        FederatedOrdinalRegression().fit(X, np.minimum(y, 1))


@pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
def test_the_tidy_table_says_which_rows_are_thresholds_as_brooms_of_polr_does():
    X, y = patients()
    table = FederatedOrdinalRegression(federation=Simulation(parties=3)).fit(X, y).tidy()
    kinds = dict(zip(table["term"], table["coef.type"], strict=True))
    assert {term for term, kind in kinds.items() if kind == "scale"} == {term for term in kinds if "|" in term}
    assert sum(kind == "coefficient" for kind in kinds.values()) == X.shape[1]
