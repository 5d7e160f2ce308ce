"""A solution on split columns is checked by a product under P, and a CSP that hides a lie in it is caught (5.2.5)."""

from dataclasses import replace

import numpy as np
import pytest

from fedsvd.errors import AnswerRefused, RepeatedShare, UnexpectedMessage, VerificationFailed
from fedsvd.protocol.messages import Challenge, Product, Solution, SumShare
from fedsvd.protocol.parties import CSP, user
from fedsvd.protocol.tasks import Split, Task
from fedsvd.roles.service_provider import role
from fedsvd.roles.service_provider.collect import Folded
from fedsvd.roles.service_provider.recover import Multiplied
from fedsvd.testing.federation import Federation

M, WIDTHS = 600, (2, 3, 1)
pytestmark = pytest.mark.filterwarnings("ignore::fedsvd.errors.PrivacyWarning")


def federation(m=M, **asked):
    rng = np.random.default_rng(11)
    X = [rng.normal(size=(m, width)) + 1.0 for width in WIDTHS]
    y = np.hstack(X) @ rng.normal(size=(sum(WIDTHS), 2)) + rng.normal(size=(m, 2))
    return Federation(X, Task.LR, Split.VERTICAL, labels=[None, y, None], **asked)


class Lying:
    """A CSP that answers with other coefficients, and remembers X'."""

    def __init__(self, monkeypatch, by=1e-3):
        real, take = role.factorise, Folded.take
        self.panels = []

        def factorise(*given):
            found = real(*given)
            rng = np.random.default_rng(1)
            return replace(found, w_masked=found.w_masked + by * rng.normal(size=found.w_masked.shape))

        def remember(folded, panel, X_masked):
            self.panels.append(np.array(X_masked))
            take(folded, panel, X_masked)

        monkeypatch.setattr(role, "factorise", factorise)
        monkeypatch.setattr(Folded, "take", remember)

    def answers(self, monkeypatch, product):
        """Multiplies as it likes: ``product(e, h_and_z, basis of the columns of X')``."""

        def lie(_, rows):
            basis = np.linalg.qr(np.vstack(self.panels)[:, : sum(WIDTHS)])[0]
            products = rows.T @ rows
            products[:-1, -1] = products[-1, :-1] = product(rows[:, :-1], rows[:, -1], basis)
            return products

        monkeypatch.setattr(Multiplied, "product", lie)


def test_other_coefficients_are_found_by_the_label_holder(monkeypatch):
    Lying(monkeypatch)
    made = federation()
    with pytest.raises(VerificationFailed, match="the coefficients"):
        made.run()


def test_a_csp_that_projects_is_caught(monkeypatch):
    """It takes the part of the product in the space of X's columns for ``<e, h>``; z has as much there."""
    lying = Lying(monkeypatch)
    lying.answers(monkeypatch, lambda e, hz, Q: e.T @ (hz - Q @ (Q.T @ hz)))
    with pytest.raises(VerificationFailed, match="the coefficients"):
        federation().run()


@pytest.mark.parametrize(
    "product",
    [
        lambda e, hz, Q: np.zeros(e.shape[1]),
        lambda e, hz, Q: (e - Q @ (Q.T @ e)).T @ hz,  # with the e of an honest answer
        lambda e, hz, Q: 0.5 * e.T @ hz,
    ],
    ids=["nothing", "an honest residual", "half of it"],
)
def test_no_other_product_hides_it_either(monkeypatch, product):
    lying = Lying(monkeypatch)
    lying.answers(monkeypatch, product)
    with pytest.raises(VerificationFailed, match="the coefficients"):
        federation().run()


def test_a_lie_far_below_what_the_data_says_is_found(monkeypatch):
    """Relative to coefficients of unit size: six digits above rounding."""
    Lying(monkeypatch, by=1e-9)
    with pytest.raises(VerificationFailed, match="the coefficients"):
        federation().run()


def test_nothing_but_the_check_is_sent_before_it_has_passed(monkeypatch):
    Lying(monkeypatch)
    made = federation()
    with pytest.raises(VerificationFailed):
        made.run()
    holder = [message for origin, _, message in made.sent if origin == user(2)]
    assert not [message for message in holder if isinstance(message, SumShare) and message.name == "intercept"]


@pytest.mark.parametrize("memory", [1 << 30, 32 * 5003])
def test_products_go_to_the_label_holder_alone(memory, tmp_path):
    made = federation(5003, memory=memory, scratch=tmp_path)
    made.run()
    panels = len(made.plan.row_panels)
    assert (panels > 1) is (memory < 1 << 30)
    assert [len(made.views.of(party, Product)) for party in made.plan.users] == [0, 1, 0]
    assert len(made.views.of(CSP, Challenge)) == 3 * panels


WRONG = {
    "one product less": (lambda said: replace(said, products=said.products[1:]), AnswerRefused),
    "not a number": (lambda said: replace(said, products=said.products * np.nan), AnswerRefused),
}


@pytest.mark.parametrize("fault", WRONG)
def test_products_without_sense_are_refused(fault):
    wrong, error = WRONG[fault]
    with pytest.raises(error):
        federation().run(meddle=lambda origin, to, said: [wrong(said) if isinstance(said, Product) else said])


def test_products_that_a_user_does_not_wait_for_are_refused():
    def meddle(origin, to, said):
        early = isinstance(said, Solution) and to == user(2)
        return [said, Product(said.plan, np.zeros(9))] if early else [said]

    with pytest.raises(UnexpectedMessage):
        federation().run(meddle=meddle)


def test_a_panel_of_a_challenge_is_taken_once():
    with pytest.raises(RepeatedShare):
        federation().run(
            meddle=lambda origin, to, said: (
                [said, said] if isinstance(said, Challenge) and origin == user(3) else [said]
            )
        )
