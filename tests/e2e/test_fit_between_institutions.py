"""``fit`` as a job between institutions: what a researcher's kit and a party's have of it, and who has the rest."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.e2e.federations import federation_of, split_table
from tests.tolerances import RESULT_BAR, assert_close

from fedsvd import FederatedLinearRegression, FederatedPCA, Federation, Simulation, load
from fedsvd.errors import ConfigError, StillRunning
from fedsvd.identity.kit import Kit
from fedsvd.policy.policy_file import spelt_policy
from fedsvd.policy.rules import Policy
from fedsvd.results.signed_certificate import verify_certificate
from fedsvd.results.signed_files import verify_files

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
        with pytest.raises(AttributeError, match=r"a, b and c have not agreed to hand over .* have theirs"):
            _ = researcher.components_
        assert researcher.certificate_.plan_digest  # whose signatures hold

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
        federation.lay_data(vertical=True, holder="a")
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        asked = FederatedLinearRegression(split="vertical", id="id")  # the party that has the column y holds it
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


def agreeing(federation, *names):
    """These parties' policies give what all share to a researcher."""
    for name in names:
        text = spelt_policy(replace(Policy.permissive(), researcher="shared"))
        (federation.kits[f"party/{name}"] / "policy.toml").write_text(text)


def test_a_researcher_has_what_all_share_of_split_rows_where_every_party_agrees(tmp_path):
    D, tables = split_table(330, 5, PARTIES)
    with federation_of(tmp_path, PARTIES, tables, how="threads") as federation:
        agreeing(federation, *PARTIES)
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        asked = FederatedPCA(2, release_spectrum=True)
        where = at(federation, "researcher/res")
        researcher = clone(asked).set_params(federation=where).fit(None)
        simulated = clone(asked).set_params(federation=Simulation(policy=Policy.permissive()))
        simulated.fit([tables[name] for name in PARTIES])
        for name in ("components_", "mean_", "singular_values_", "explained_variance_ratio_"):
            expected = getattr(simulated, name)
            assert_close(np.abs(getattr(researcher, name)), np.abs(expected), RESULT_BAR, np.abs(expected).max())
        centred = D - D.mean(axis=0)
        assert_close(np.abs(researcher.components_), np.abs(np.linalg.svd(centred)[2][:2]), RESULT_BAR)
        assert researcher.transform(D).shape == (330, 2)
        assert researcher.parties_ == ()
        with pytest.raises(AttributeError, match="nothing with a row for each record; the parties a, b and c have"):
            _ = researcher.scores_

        (folder,) = (federation.kits["researcher/res"] / "results").iterdir()
        verify_certificate(folder / "certificate.json", Kit.read(federation.kits["party/a"]).pins())
        assert verify_files(folder / "certificate.json").same_at == ("user-2", "user-3")
        assert_close(load(folder).components_, researcher.components_, RESULT_BAR)
        party = clone(asked).set_params(federation=at(federation, "party/b")).fit(None)
        np.testing.assert_array_equal(party.components_, researcher.components_)  # to the last bit
        # Again, and in another process: from the folder, without asking anyone.
        np.testing.assert_array_equal(clone(researcher).fit(None).components_, researcher.components_)


def test_a_researcher_has_the_intercept_of_split_columns_and_is_told_who_has_the_rest(tmp_path):
    with federation_of(tmp_path, PARTIES, how="threads") as federation:
        federation.lay_data(vertical=True, holder="c")
        agreeing(federation, *PARTIES)
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        asked = FederatedLinearRegression(split="vertical", id="id", label_party=2)
        researcher = clone(asked).set_params(federation=at(federation, "researcher/res")).fit(None, "y")
        exact = np.column_stack((np.ones(len(federation.D)), federation.D))
        expected = np.linalg.lstsq(exact, federation.y, rcond=None)[0]
        assert_close(researcher.intercept_, expected[0], RESULT_BAR, np.abs(federation.y).max())
        with pytest.raises(AttributeError, match=r"has no coef_ here: .*the parties a, b and c have theirs"):
            _ = researcher.coef_


def test_one_party_that_does_not_agree_is_named_and_nothing_is_opened(tmp_path):
    _, tables = split_table(330, 5, PARTIES)
    with federation_of(tmp_path, PARTIES, tables, how="threads") as federation:
        agreeing(federation, "a", "c")
        federation.start("csp/csp", *(f"party/{name}" for name in PARTIES))
        researcher = FederatedPCA(2, federation=at(federation, "researcher/res")).fit(None)
        with pytest.raises(AttributeError, match="has no components_ here: b has not agreed to hand over"):
            _ = researcher.components_
        assert not (federation.kits["researcher/res"] / "results").exists()
