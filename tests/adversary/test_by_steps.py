"""What the family ``steps`` shows: the CSP a number of steps, the parties the joint Gram matrix in some directions.

Attacks read real sessions: what a user holds is taken from its role, what the CSP sees from its messages.
"""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
from tests.tolerances import FITTED_BAR, SEVEN_DIGITS, TEN_DIGITS, assert_close

from fedsvd.audit.attacks.directions import candidates, lattice_of_records
from fedsvd.errors import FedSVDError, SumAltered, VerificationFailed
from fedsvd.linalg.golub_kahan import Space
from fedsvd.linalg.verdicts import Wanted
from fedsvd.policy.bits_held import Earlier, OwnBits, bit_findings
from fedsvd.policy.learned import what_each_role_learns
from fedsvd.policy.rules import Policy, findings
from fedsvd.policy.sentences import of_openings
from fedsvd.protocol.directions import RECORDS_BY_AUTO, components_within, directions_for, fine_in_words
from fedsvd.protocol.messages import Message, SumReply, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Scheme, Split, Task
from fedsvd.roles.user.by_steps import report_residual
from fedsvd.service import member_session
from fedsvd.studies.planning import plan_study
from fedsvd.studies.study import Study
from fedsvd.testing.federation import Federation, altering
from fedsvd.types import SessionId

pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")
H = Split.HORIZONTAL


def session(tables, components=2, **asked):
    return Federation(tables, Task.SVD, H, scheme="steps", components=components, **asked)


def tables(rows=(20, 15, 12), features=30, scale=1.0, seed=1):
    """A spectrum that falls by ten from feature to feature at first: a few steps."""
    rng = np.random.default_rng(seed)
    spread = scale * np.concatenate(([3.0, 2.0, 1.0], np.full(features - 3, 0.05)))
    return [rng.normal(size=(n, features)) * spread for n in rows]


def held(federation, monkeypatch):
    """The directions and images that users are shown: G K = Z (Z^T K) with G the joint Gram matrix."""
    shown = {}
    added = Space.added

    def noted(self, Z):
        shown[self.seen] = self.block, Z
        return added(self, Z)

    monkeypatch.setattr(Space, "added", noted)
    federation.run()
    K, Z = (np.concatenate(each, axis=1) for each in zip(*shown.values(), strict=True))
    return SimpleNamespace(K=K, Z=Z)


# --- the CSP ----------------------------------------------------------------------------------------------------------


def shapes(message):
    return [
        (name, getattr(value, "shape", value if not isinstance(value, bytes) else len(value)))
        for name, value in vars(message).items()
        if name not in ("plan", "public", "commitment", "signature", "certificate")
    ]


def test_the_csps_view_of_steps_is_a_function_of_the_plan_and_of_what_was_played():
    views, played = [], set()
    for scale in (1.0, 2.0**20):  # other data of the same steps: rounding is the same, too
        federation = session(tables(scale=scale))
        federation.run()
        seen = [
            (origin, type(message).__name__, shapes(message)) for origin, message in federation.views.of(CSP, Message)
        ]
        views.append(sorted(map(repr, seen)))
        played.add(federation.machines[user(1)].played)
    assert len(played) == 1
    assert views[0] == views[1]


def test_lengths_do_not_show_how_many_columns_a_block_has():
    """A matrix of rank 3 and one of rank 30: blocks of other widths, sums and messages of the same lengths."""
    low = np.random.default_rng(2).normal(size=(40, 3)) @ np.random.default_rng(3).normal(size=(3, 30))
    sizes = []
    for X in (low, np.concatenate(tables((20, 20)))):
        federation = session(np.array_split(X, 2))
        federation.run()
        first = [m for origin, m in federation.views.of(CSP, SumShare) if origin == user(2) and m.name.endswith(" 0")]
        sizes.append({m.name: m.payload.shape for m in first if "third" not in m.name and "fourth" not in m.name})
    assert sizes[0] == sizes[1]


def test_every_word_that_the_csp_gets_by_steps_is_uniform():
    federation = session(tables(features=300), 3)
    federation.run()
    words = np.concatenate([np.ravel(message.payload) for _, message in federation.views.of(CSP, SumShare)])
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert len(words) > 10_000
    # Each bit is a mean of so many fair coins: six deviations.
    assert np.abs(bits - 0.5).max() < 3.0 / np.sqrt(len(words))
    assert len(np.unique(words)) == len(words)


def test_the_csp_learns_how_many_steps_there_were_and_this_is_stated():
    counts = []
    for flat in (False, True):
        X = np.random.default_rng(4).normal(size=(60, 40)) if flat else np.concatenate(tables((30, 30), 40))
        federation = session(np.array_split(X, 2))
        found = federation.run()[0]
        names = {message.name for _, message in federation.views.of(CSP, SumShare)}
        counts.append(sum(name.startswith("step ") for name in names))
        assert f"found in {counts[-1]} steps" in found.checked.order.text
    assert counts[0] < counts[1]
    assert any("how many steps were played" in line for line in what_each_role_learns(federation.plan))


@pytest.mark.parametrize("name", ["step 0", "step 1", "cross again 1", "images"])
def test_a_csp_that_alters_one_word_of_a_sum_stops_the_session_and_learns_no_more(name):
    def change(reply):
        if reply.name != name:
            return [reply]
        payload = reply.payload.copy()
        payload[0, 0] += np.uint64(1)
        return [SumReply(reply.plan, reply.name, reply.batch, payload, reply.tag, reply.commitments)]

    federation = session(tables())
    with pytest.raises(FedSVDError) as caught:
        federation.run(meddle=altering(SumReply, change, to=user(2)))
    assert isinstance(caught.value, SumAltered)
    assert not federation.released


# --- the parties ------------------------------------------------------------------------------------------------------


def test_with_two_parties_steps_give_the_partners_gram_matrix_in_the_directions_opened_and_this_is_stated(monkeypatch):
    mine, partners = tables((40, 60), 25)
    federation = session([mine, partners])
    space = held(federation, monkeypatch)
    joint = space.Z @ (space.Z.T @ space.K)
    E = np.log2(np.linalg.norm(joint) / np.linalg.norm((mine.T @ mine + partners.T @ partners) @ space.K)) / 2
    unit = 4.0 ** -np.round(E)  # the common unit, a power of two that every user has
    found = joint * unit - mine.T @ (mine @ space.K)
    assert_close(found, partners.T @ (partners @ space.K), FITTED_BAR)
    assert any(
        "in the directions that were opened, at most 25" in line for line in what_each_role_learns(federation.plan)
    )
    assert any("times directions that follow from one another" in line for line in of_openings(federation.plan))


def test_as_many_directions_as_the_others_have_records_give_their_gram_matrix_and_this_is_stated(monkeypatch):
    """Six records of the partner, and ten directions of the first block: all that there is."""
    mine, partners = tables((40, 6), 25)
    federation = session([mine, partners])
    space = held(federation, monkeypatch)
    joint = space.Z @ (space.Z.T @ space.K)
    true = partners.T @ partners
    unit = 4.0 ** -np.round(np.log2(np.linalg.norm(joint) / np.linalg.norm((mine.T @ mine + true) @ space.K)) / 2)
    B = joint * unit - mine.T @ (mine @ space.K)
    found = B @ np.linalg.pinv(space.K.T @ B, rcond=TEN_DIGITS) @ B.T  # Nystroem: exact where K^T G K has the rank of G
    assert_close(found, true, SEVEN_DIGITS)
    said = [*of_openings(federation.plan)]
    assert any("So many directions may be all there are" in line for line in said)
    assert "directions" in {finding.rule for finding in findings(federation.plan, Policy())}
    assert "directions" not in {each.rule for each in findings(federation.plan, Policy(consent_to_gram=True))}


def test_many_records_and_few_directions_ask_for_no_consent_within_an_owners_limit():
    plan = session(tables((400, 400, 400), 300)).assemble().plan  # two components: 184 directions at most
    for limit, rules in ((None, set()), (184, set()), (183, {"directions"})):
        found = findings(plan, Policy(most_directions=limit, consent_to_gram=limit == 183))
        assert {each.rule for each in found if each.rule == "directions"} == rules


def test_lattice_reduction_reads_whole_numbers_from_opened_directions_and_this_is_stated(monkeypatch):
    """Seven records of 0, 1, 2 from four directions: vectors at right angles to all records, then the records."""
    rng = np.random.default_rng(7)
    mine, partners = rng.normal(size=(30, 18)), rng.integers(0, 3, size=(7, 18)).astype(float)
    federation = session([mine, partners])
    space = held(federation, monkeypatch)
    joint = space.Z @ (space.Z.T @ space.K)
    true = (mine.T @ mine + partners.T @ partners) @ space.K
    unit = 4.0 ** -np.round(np.log2(np.linalg.norm(joint) / np.linalg.norm(true)) / 2)
    B = (joint * unit - mine.T @ (mine @ space.K))[:, :4]
    read = candidates(lattice_of_records(B, 7), np.zeros(18), np.full(18, 2))
    records = {tuple(map(int, row)) for row in partners}
    assert records <= read
    own = OwnBits(7, {"g": 1.5}, few=("g",))
    assert any(each.rule == "directions" and each.below for each in bit_findings(federation.plan, own, Policy()))


@pytest.mark.parametrize(("rows", "few", "refused"), [(400, ("g",), True), (400, (), False), (3000, ("g",), False)])
def test_whole_numbers_of_few_records_a_direction_are_refused_at_home(rows, few, refused):
    """184 directions at most: 8 records for each of them are 1,472 outside of the largest other party."""
    plan = session(tables((rows, rows, rows), 300)).assemble().plan
    own = OwnBits(rows, dict.fromkeys((f"x{j}" for j in range(300)), 8.0), few=few)
    found = [each for each in bit_findings(plan, own, Policy()) if each.rule == "directions"]
    assert bool(found) is refused
    assert not bit_findings(plan, own, Policy(openings="any"))


def test_progress_shows_residuals_in_one_process_and_none_to_the_csp():
    """A member reports its stages to the CSP; how the vectors converge is the users' alone."""
    for memo, told in (({}, True), (None, False)):
        said = []
        report_residual(
            SimpleNamespace(memo=memo, progress=lambda *given, said=said: said.append(given)),
            3,
            SimpleNamespace(s=None, residual=lambda r: 1e-7),
            Wanted(2),
        )
        assert said == ([("step 4, residual 1e-07", 53, 100)] if told else [])
    assert "memo" not in inspect.getsource(member_session)  # a member's role has none


def test_split_columns_by_steps_open_numbers_of_every_record_and_this_is_stated_and_asked_about(monkeypatch):
    """Two parties, and one has the other's records in all directions opened: of one column, the column itself."""
    rng = np.random.default_rng(8)
    mine, partners = rng.normal(size=(30, 12)), rng.normal(size=(30, 1))
    federation = Federation([mine, partners], Task.SVD, Split.VERTICAL, scheme="steps", components=2)
    space = held(federation, monkeypatch)
    joint = space.Z @ (space.Z.T @ space.K)
    true = (mine @ mine.T + partners @ partners.T) @ space.K
    unit = 4.0 ** -np.round(np.log2(np.linalg.norm(joint) / np.linalg.norm(true)) / 2)
    others = joint * unit - mine @ (mine.T @ space.K)  # partners' column times unknown weights, one for each direction
    column = np.linalg.svd(others)[0][:, 0]
    assert_close(np.abs(column @ partners[:, 0]), np.linalg.norm(partners), TEN_DIGITS)
    assert any("numbers of single records: up to 30 of each" in line for line in of_openings(federation.plan))
    asked = [each for each in bit_findings(federation.plan, OwnBits(30, {"x": 8.0}), Policy()) if each.asks]
    assert [each.rule for each in asked] == ["per record"]
    refused = bit_findings(federation.plan, OwnBits(30, {"x": 1.0}, few=("x",)), Policy())
    assert any(each.rule == "directions" and each.below and "1 columns" in each.text for each in refused)
    assert "directions" in {each.rule for each in findings(federation.plan, Policy())}


@pytest.mark.parametrize("components", [1, 2, 5, 10])
def test_by_auto_genotypes_hold_more_than_steps_open(components):
    """At the fewest records with which ``auto`` takes steps, no owner of columns of one and a half bits is asked."""
    least = RECORDS_BY_AUTO * directions_for(components, 20_000)
    for outside, scheme in ((least, Scheme.STEPS), (least - 1, Scheme.MASK)):
        study = Study(Task.SVD, H, components=components)
        plan = plan_study(study, 20_000, (2 * least, outside - 9, 9), SessionId("s")).plan
        assert plan.scheme is scheme
        if scheme is Scheme.STEPS:
            own = OwnBits(outside - 9, dict.fromkeys((f"g{j}" for j in range(20_000)), 1.5), few=("g0",))
            assert not [found for found in bit_findings(plan, own, Policy()) if found.rule in ("bits", "directions")]
            assert "directions" not in {found.rule for found in findings(plan, Policy())}


# --- user 1 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["propose_directions", "propose_mixture", "answer"])
def test_a_user_1_that_chooses_a_direction_is_refused_by_the_others_and_nothing_is_released(method, monkeypatch):
    """It would ask for one feature of the others: a direction of its own."""
    honest = getattr(Space, method)
    told = []

    def lie(self, *arguments):
        found = honest(self, *arguments)
        told.append(method)
        first = found[0] if method == "answer" else found
        chosen = np.zeros((len(first), 1))
        chosen[1] = 1.0
        changed = np.concatenate((chosen, first[:, 1:]), axis=1)
        return (changed, *found[1:]) if method == "answer" else changed

    monkeypatch.setattr(Space, method, lie)
    federation = session(tables())
    with pytest.raises(VerificationFailed):
        federation.run()
    assert told
    assert not federation.released


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("components", [1, 2, 5, 10])
@pytest.mark.parametrize("records", [8, 60, 300])
def test_small_parties_with_genotypes_are_refused_whatever_the_components(records, components, parties):
    """The attack reads some records a direction and fewer; the rule asks for eight of the most there may be."""
    counts = (4000, *[records] * (parties - 1))
    study = Study(Task.SVD, H, scheme="steps", components=components)
    plan = plan_study(study, 20_000, counts, SessionId("a session")).plan
    own = OwnBits(records, dict.fromkeys((f"g{j}" for j in range(20_000)), 1.5), few=("g0",))
    found = [each for each in bit_findings(plan, own, Policy()) if each.rule == "directions"]
    outside = records * (parties - 1)
    assert bool(found) is (outside < 8 * directions_for(components, 20_000))
    assert found
    assert found[0].below


def test_directions_of_earlier_studies_of_the_same_table_count():
    """A study of 2 components, which is fine, and the same table once more, as another scale has other directions."""
    study = Study(Task.SVD, H, scheme="steps", components=2)
    plan = plan_study(study, 20_000, (2000, 2000), SessionId("a session")).plan
    own = OwnBits(2000, dict.fromkeys((f"g{j}" for j in range(20_000)), 1.5), few=("g0",))
    directions = directions_for(2, 20_000)
    assert 8 * directions <= 2000 < 16 * directions
    assert "directions" not in {each.rule for each in bit_findings(plan, own, Policy())}
    earlier = (Earlier(0, {}, directions),)
    (found,) = [each for each in bit_findings(plan, own, Policy(), earlier) if each.rule == "directions"]
    assert found.below
    assert f"{2 * directions} directions of 2,000 records, {directions} of them in earlier studies" in found.text


@pytest.mark.parametrize(
    ("counts", "few"), [((3000,) * 3, True), ((3000,) * 3, False), ((600,) * 3, False), ((90,) * 2, True)]
)
def test_the_number_of_components_that_a_plan_names_as_fine_is_and_one_more_is_not(counts, few):
    """What a refusal names instead passes the rule that refused."""
    m, n, policy = 20_000, counts[0], Policy()
    outside = sum(counts) - max(counts)
    fine = components_within(outside / 8 if few else outside / 2, m)
    own = OwnBits(n, dict.fromkeys((f"g{j}" for j in range(m)), 8.0), few=("g0",) if few else ())
    for components in (fine, fine + 1):
        if not components:
            continue
        study = Study(Task.SVD, H, scheme="steps", components=components)
        plan = plan_study(study, m, counts, SessionId("a session")).plan
        found = [*bit_findings(plan, own, policy), *(() if few else findings(plan, policy))]
        refused = [each for each in found if each.rule == "directions"]
        assert bool(refused) is (components > fine)
        assert f"; {components_within(outside / 8, m)} where columns have few values" in fine_in_words(plan)
    named = f"up to {fine} components are fine" if fine else "no number of components is fine"
    assert named in refused[0].text
