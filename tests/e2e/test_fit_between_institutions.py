"""``fit`` as a job between institutions: what a researcher's kit and a party's have of it, and who has the rest."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.e2e.federations import federation_of, split_table
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd import FederatedLinearRegression, FederatedPCA, Federation
from fedsvd.errors import ConfigError, StillRunning

PARTIES = ("a", "b", "c")


def at(federation, who, name="study", **more):
    return Federation(federation.kits[who], PARTIES, name, address=federation.csp, **{"wait": 120.0, **more})


def test_a_study_of_split_rows_is_one_job_for_all_who_fit_it(tmp_path):
    D, tables = split_table(330, 5, PARTIES)
    with federation_of(tmp_path, PARTIES, tables, how="threads") as federation:
        federation.start("csp/csp")
        asked = FederatedPCA(2)
        researcher = clone(asked).set_params(federation=at(federation, "researcher/res", wait=0.2))
        with pytest.raises(StillRunning, match="call fit again"):
            researcher.fit(None)
        job = researcher.job_
        with pytest.raises(ConfigError, match=r"a party submits none\. Fix: the same fit with a researcher's kit"):
            clone(asked).set_params(federation=at(federation, "party/a", name="other")).fit(None)

        federation.start(*(f"party/{name}" for name in PARTIES))
        researcher.set_params(federation=at(federation, "researcher/res")).fit(None)
        assert researcher.job_ == job  # the same job went on
        assert not hasattr(researcher, "components_")
        with pytest.raises(AttributeError, match="the parties a, b and c have theirs"):
            _ = researcher.components_

        sigma, Vt = np.linalg.svd(D - D.mean(axis=0), full_matrices=False)[1:]
        for name in ("a", "c"):
            party = clone(asked).set_params(federation=at(federation, f"party/{name}")).fit(None)
            assert party.job_ == job
            assert_close(np.abs(party.components_), np.abs(Vt[:2]), RESULT_BAR)
            assert_close(party.singular_values_, sigma[:2], RESULT_BAR, sigma[0])
            assert [own.scores_.shape for own in party.parties_] == [(len(tables[name]), 2)]
            assert party.transform(D).shape == (330, 2)
            with pytest.raises(AttributeError, match="has no scale_ here: this party's results do not have it"):
                _ = party.scale_
            assert pickle.loads(pickle.dumps(party)).job_ == job  # noqa: S301
            assert copy.deepcopy(party).federation == party.federation

        with pytest.raises(ConfigError, match="a job of the name 'study' is known here, and asks for something else"):
            clone(researcher).set_params(n_components=3).fit(None)
        with pytest.raises(ConfigError, match="X was given, and tables of a federation are where"):
            clone(researcher).fit(D)
        with pytest.raises(ConfigError, match="cross-validation"):
            GridSearchCV(clone(researcher), {"n_components": [1, 2]}, error_score="raise", scoring=len).fit(D)
        again = clone(researcher).set_params(federation=at(federation, "researcher/res", each_fit_is_a_job=True))
        assert again.set_params(n_components=3).fit(None).job_ != job


def test_a_party_of_split_columns_has_its_own_coefficients(tmp_path):
    with federation_of(tmp_path, PARTIES, how="threads") as federation:
        federation.lay_data(vertical=True, holder="c")
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        asked = FederatedLinearRegression(split="vertical", id="id", label_party=2)
        clone(asked).set_params(federation=at(federation, "researcher/res")).fit(None, "y")
        centred = federation.D - federation.D.mean(axis=0)
        expected = np.linalg.lstsq(centred, federation.y - federation.y.mean(), rcond=None)[0]
        party = clone(asked).set_params(federation=at(federation, "party/b")).fit(None, "y")
        assert_close(centred[:, 2:4] @ party.coef_, centred[:, 2:4] @ expected[2:4], RESULT_BAR)
        assert party.target_names_ == ("y",)
        assert len(party.parties_) == 1
        with pytest.raises(ConfigError, match="one party's columns, and mean little without the others'"):
            party.predict(federation.D[:, 2:4])
        with pytest.raises(ConfigError, match="y holds values, and tables are where"):
            clone(party).fit(None, federation.y)
