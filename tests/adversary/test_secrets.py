"""Adversary test 9: secrets.

Canaries are planted in data, ids and labels, and every seed made in a run is noted; nothing that a person or a log
could come to see shows any of them. Seeds have 256 bits, are fresh for each run, and zero is one like any other.
"""

import base64
import json
import logging
import tempfile
import warnings

import numpy as np
import pytest
from tests.adversary.watch import columns, csp_view, payloads, public_keys, watched

from fedsvd.data.open import open_source
from fedsvd.data.source import MatrixSource
from fedsvd.engine import device as engine
from fedsvd.engine.simulate import Simulation
from fedsvd.errors import FedSVDError, FixedPointOverflow, NotFinite, NumericalError, PrivacyWarning, RowsDiffer
from fedsvd.policy.rules import Policy
from fedsvd.protocol.messages import Aborted, KeyOffer
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Item, Mode, Split, Task
from fedsvd.randomness import entropy
from fedsvd.randomness.keystream import Keystream
from fedsvd.randomness.seed import SIZE, Seed
from fedsvd.roles.user import upload
from fedsvd.roles.user.role import User
from fedsvd.studies.parties import PartyData
from fedsvd.studies.run import assemble, run_study
from fedsvd.studies.study import Study
from fedsvd.transport.loopback import Hub

CANARY = 7391.158273645
NAMED = "CANARY-7391"
M, WIDTHS = 30, (8, 5, 11)


def table():
    X = np.random.default_rng(1).standard_normal((M, sum(WIDTHS)))
    X[3, 2] = X[17, 9] = X[5, 20] = CANARY
    return X


@pytest.fixture
def seeds(monkeypatch):
    """Every seed made while the test runs."""
    made: list[bytes] = []
    init = Seed.__init__

    def noted(self, secret):
        init(self, secret)
        made.append(bytes(secret))

    monkeypatch.setattr(Seed, "__init__", noted)
    return made


def forms(secret: bytes) -> list[str]:
    return [secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1], ", ".join(map(str, secret[:8]))]


def expect_silence(texts, seeds, numbers=(CANARY,)):
    """No canary, no seed and no run of an array in any of the texts."""
    joined = "\n".join(texts)
    for number in numbers:
        assert f"{number:.9g}"[:8] not in joined, "an entry of the data"
    assert NAMED not in joined, "an id"
    assert "array(" not in joined
    public = joined.lower()
    for secret in seeds:
        assert not any(form.lower() in public for form in forms(secret)), "a seed"


RUNS = {
    "svd": (Task.SVD, {}),
    "opened by the CSP": (Task.SVD, {"scheme": "sum", "mode": Mode.B}),
    "mask": (Task.SVD, {"scheme": "mask"}),
    "authority": (Task.SVD, {"trust": "authority", "check_ids": True}),
    "pca": (Task.PCA, {"split": Split.HORIZONTAL, "components": 2, "unit_variance": True}),
    "lr": (Task.LR, {"targets": 1, "label_user": 2, "release": (Item.COEFFICIENTS, Item.INTERCEPT, Item.SCORE)}),
}


@pytest.mark.parametrize("name", RUNS)
def test_no_secret_shows_in_any_repr_report_or_log_of_a_run(name, seeds, caplog):
    task, study = RUNS[name]
    parts = columns(table(), WIDTHS) if study.get("split") is None else np.split(table(), [9, 14])
    labels = [None, np.full((M, 1), CANARY) + table()[:, :1], None] if task is Task.LR else None
    ids = [np.array([f"{NAMED}-{row}" for row in range(M)])] * 3 if study.get("check_ids") else [None] * 3
    with caplog.at_level(logging.DEBUG):
        outcome = watched(parts, task, random_state=None, labels=labels, ids=ids, memory=1 << 20, **study)
    texts = [repr(outcome), str(outcome), repr(outcome.plan), repr(outcome.views), caplog.text]
    texts += [repr(outcome.certificate), json.dumps(outcome.certificate.record()), repr(outcome.parties)]
    texts += [f"{who} {said!r} {said}" for heard in outcome.views.received.values() for who, said in heard]
    assert len(seeds) > 20
    # The session's id is the head of a derived seed, and public: it is never a whole one.
    expect_silence(texts, seeds)


def test_no_secret_shows_in_a_temporary_name(seeds, tmp_path, monkeypatch):
    """X' is made to go to disk; what it is called there says whose program it is, and nothing else."""
    names, make, choose = [], tempfile.mkdtemp, engine.choose_store

    def noted(*args, **kwargs):
        names.append(make(*args, **kwargs))
        return names[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", noted)
    monkeypatch.setattr(engine, "choose_store", lambda shape, access, _, where: choose(shape, access, 0, where))
    parties = [PartyData(open_source(part.copy())) for part in columns(table(), WIDTHS)]
    study = Study(Task.SVD, Split.VERTICAL, scheme="mask")
    outcome = run_study(study, parties, scratch=tmp_path, policy=Policy.permissive())
    assert names
    expect_silence(names, seeds)
    assert not any(outcome.plan.session in name or outcome.plan.digest[:8] in name for name in names)
    assert not list(tmp_path.rglob("*"))  # and it is gone


def test_the_watch_would_notice(seeds):
    """Each of the three kinds of canary, shown on purpose."""
    secret = Seed.fresh()
    for leak in (f"x={CANARY}", f"row {NAMED}-3", f"key {secret.reveal().hex()}", repr(np.array([CANARY]))):
        with pytest.raises(AssertionError):
            expect_silence([leak], seeds)


# Errors.


def failing(**study):
    """Sessions that end badly, each in its own way, with the texts that all parties are sent."""
    X = table()
    return assemble(
        Study(Task.SVD, Split.VERTICAL, **study),
        [PartyData(open_source(p.copy())) for p in columns(X, WIDTHS)],
        Seed.fresh(),
    )


def told(session, error=FedSVDError):
    """All that is shown when this session fails: the error, and what each party is sent of it."""
    simulation = Simulation(session.machines, Hub(), record=True)
    with pytest.raises(error) as failure:
        simulation.run()
    views = simulation.so_far.views
    said = [message for party in views.received for _, message in views.of(party, Aborted)]
    texts = [str(failure.value), repr(failure.value)]
    texts += [f"{message!r} {message.code} {message.stage}" for message in said]
    texts += [str(machine.failure) for machine in session.machines if machine.failure is not None]
    return texts, said


def test_an_overflow_names_a_bound_and_a_count_and_no_entry(seeds, monkeypatch):
    monkeypatch.setattr(upload, "entry_bound", lambda work, F: 1e-3)
    texts, said = told(failing(scheme="mask"), FixedPointOverflow)
    assert said
    expect_silence(texts, seeds)


def test_rows_that_differ_are_neither_counted_nor_named(seeds):
    X = columns(table(), WIDTHS)
    ids = [np.array([f"{NAMED}-{row}" for row in order]) for order in (range(M), range(M), [1, 0, *range(2, M)])]
    parties = [PartyData(open_source(X_i.copy()), ids=own) for X_i, own in zip(X, ids, strict=True)]
    session = assemble(Study(Task.SVD, Split.VERTICAL, check_ids=True), parties, Seed.fresh())
    texts, _ = told(session, RowsDiffer)
    assert not any(digit.isdigit() for text in texts for digit in text.replace("FSVD-208", "").replace("FSVD-415", ""))
    expect_silence(texts, seeds)


def test_a_fault_in_one_partys_data_tells_the_others_its_code_and_nothing_of_its_tables(seeds):
    """A file that is cut short while a session runs: rows, columns and names are told at home alone."""
    session = failing()

    class Broken(MatrixSource):
        def _cells(self, rows, columns):
            raise NotFinite(f"1 entry is NaN, at row 3, column {NAMED!r}", f"look at {NAMED}")

    victim = next(machine for machine in session.machines if machine.me == user(2))
    assert isinstance(victim, User)
    object.__setattr__(victim.inputs, "source", Broken((M, WIDTHS[1]), np.dtype(np.float64)))
    texts, said = told(session)
    assert NAMED in texts[0]  # the owner's own error does say it
    assert said
    for message in said:
        assert message.code in ("FSVD-201", "FSVD-415")
        assert set(vars(message)) == {"plan", "code", "stage"}
        assert message.stage.isalpha()


def test_warnings_carry_counts_and_no_data(seeds):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parts = columns(table(), WIDTHS)
        run_study(Study(Task.SVD, Split.VERTICAL), [PartyData(open_source(part.copy())) for part in parts])
    assert any(warning.category is PrivacyWarning for warning in caught)
    expect_silence([str(warning.message) for warning in caught], seeds)


# Seeds.


def test_every_seed_has_256_bits_and_no_two_are_alike(seeds):
    watched(columns(table(), WIDTHS), random_state=None, scheme="mask")
    assert {len(secret) for secret in seeds} == {SIZE} == {32}
    # A seed may be made again from the same parts (both ends of a pair derive theirs); none is trivial.
    assert all(len(set(secret)) > 8 for secret in seeds)


def test_the_operating_system_is_asked_afresh_for_every_run(monkeypatch):
    asked = []
    urandom = entropy.os.urandom
    monkeypatch.setattr(entropy.os, "urandom", lambda size: asked.append(size) or urandom(size))
    for _ in range(2):
        watched(columns(table(), WIDTHS), random_state=None)
    assert len(asked) >= 2
    assert set(asked) == {32}


def test_zero_is_not_special():
    """Neither as a random state, which is not None, nor as a seed, whose stream is as good as any other."""
    zero, one, fresh = (watched(columns(table(), WIDTHS), random_state=state) for state in (0, 1, None))
    again = watched(columns(table(), WIDTHS), random_state=0)
    views = [csp_view(run) for run in (zero, one, fresh)]
    assert all(map(np.array_equal, payloads(csp_view(again)), payloads(views[0])))
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not public_keys(views[first]) & public_keys(views[second])
        words = [np.concatenate([payload.ravel() for payload in payloads(views[i])]) for i in (first, second)]
        assert not np.intersect1d(*words).size
    stream = Keystream(Seed(bytes(32))).words(4096)
    assert len(np.unique(stream)) == 4096
    assert np.count_nonzero(stream >> np.uint64(63)) == pytest.approx(2048, abs=200)


def test_two_runs_share_no_key_and_no_word():
    first, second = (csp_view(watched(columns(table(), WIDTHS), random_state=None)) for _ in range(2))
    assert len(public_keys(first)) == 3
    assert not public_keys(first) & public_keys(second)
    words = [np.concatenate([payload.ravel() for payload in payloads(view)]) for view in (first, second)]
    assert not np.intersect1d(*words).size


def test_the_csp_and_the_users_hear_no_seed_in_the_clear(seeds):
    """Every byte string and every word of every view, against every seed of the run."""
    outcome = watched(columns(table(), WIDTHS), random_state=None, trust="authority")
    public = committed(outcome)
    for party, heard in outcome.views.received.items():
        for _, message in heard:
            blob = b"".join(value for value in flat(vars(message).values()))
            assert not any(secret in blob for secret in seeds if secret not in public), (party, message)
    assert CSP in outcome.views.received


def committed(outcome):
    """Dealers' commitments are derived seeds, made to be published: they bind to the seeds dealt and hide them."""
    offers = [offer.commitment for _, offer in outcome.views.of(CSP, KeyOffer) if offer.commitment]
    assert len(offers) == 2  # the TA's for the mask seed, user 1's for the users' seed
    return set(offers)


def flat(values):
    for value in values:
        if isinstance(value, bytes):
            yield value
        elif isinstance(value, np.ndarray):
            yield value.tobytes()
        elif isinstance(value, tuple | list):
            yield from flat(value)


@pytest.mark.parametrize(
    "study", [{"scheme": "sum", "mode": Mode.A}, {"scheme": "sum", "mode": Mode.B}, {"scheme": "mask"}], ids=str
)
def test_numerical_errors_name_no_number(study):
    with pytest.raises(NumericalError) as refusal:
        watched([part * 1e200 for part in columns(table(), WIDTHS)], **study)
    assert "7391" not in str(refusal.value)
