"""The local work of a user in the family ``steps``, label by label; each function is an entry of ``labels.py``.

Each counts what all steps take together, where its label comes first.
"""

from fedsvd.cost.rates import Piece, Work
from fedsvd.cost.users import Pieces, User
from fedsvd.kernels.narrow import EIGHT
from fedsvd.linalg.few_columns import MOST, READ
from fedsvd.linalg.sparse_products import STORED
from fedsvd.linalg.verdicts import Search
from fedsvd.protocol.directions import answer_width, by_share, first_width, later_width, most_steps, reach

_FOUR_NORMS = 4.0
_SVD = 20.0  # flops of a small SVD for each entry and column
_SQUARES, _MANY = 5.0, 2  # the same of the leading ones, where there are as many times more
_OF_COLUMNS = 3  # products of a block with earlier columns: one in each of two passes, and what is taken off
_OF_BASIS = 2  # products of an image with the basis; one more where the next block is a combination of it
_QR = 4.0  # flops of a QR factorisation with its Q, for each row and square of columns
_COPIES, _COPIES_OF_IMAGE = 5, 8  # how often a block, and an image, is written as it is scaled, taken off and laid out
_SENT = 3.0  # how often a message of user 1 is written: with its numbers, sealed and opened


def _blocks(user: User) -> list[tuple[int, int]]:
    """The columns before each expected block, and its own."""
    plan, found = user.plan, []
    for step in range(min(len(user.expected.passes), 1 + most_steps(plan))):
        width = first_width(plan) if step == 0 else later_width(plan)
        found.append((reach(plan, step) - width, width))
    return found


def _times(numbers: float, columns: int) -> Work:
    """A matrix of so many numbers times this many columns."""
    if columns > MOST:
        return Work(gemm=2.0 * numbers * columns)
    return Work(narrow=numbers * (READ + columns))


def _product(user: User, columns: int) -> Work:
    """X_i, or its transpose, times a block; what is multiplied, and what comes out, lies in fresh memory."""
    m, n_i, stored = user.plan.m, user.n_i, user.stored
    written = Work(memory=4.0 * _COPIES * (m + n_i) * columns)
    if stored < 1.0:
        return _times(STORED * stored * m * n_i, columns + -columns % EIGHT) + written
    return _times(float(m * n_i), columns) + written


def _products(user: User) -> Work:
    """The same for all blocks, and for the vectors at the end."""
    made = [_product(user, width) for _, width in _blocks(user)]
    return sum(made, _product(user, _answered(user)))


def _answered(user: User) -> int:
    """Vectors of the answer: of a share of the variance those of the expected messages, not all that it may have."""
    if not by_share(user.plan):
        return user.r
    return min(user.r, user.expected.answers * answer_width(user.plan))


def lengths(user: User) -> Pieces:
    """Norms of all features at this user; where there are means these say it."""
    if not user.plan.centre:
        yield Piece("products", Work(memory=8.0 * _FOUR_NORMS * user.stored * user.plan.m * user.n_i))


def directions(user: User) -> Pieces:
    """A block times the data, and less what earlier columns have of it."""
    blocks = _blocks(user)
    orthogonal = sum((_times(float(user.n_i * (before + width)), width) for before, width in blocks), Work())
    basis = float((3 * user.plan.m + user.n_i) * max(map(sum, blocks)))
    work = _products(user) + orthogonal * _OF_COLUMNS
    yield Piece("products", work, basis, keeps=(("basis", basis),))


def products(user: User) -> Pieces:
    """The image of each block, and of the vectors at the end."""
    yield Piece("products", _products(user), float(user.plan.m * first_width(user.plan)))


def ritz_values(user: User) -> Pieces:
    """What an image has outside of the basis, a small SVD where the directions have grown, and what user 1 sends.

    Users of one process compute, seal and hash it once.
    """
    m, small, long, search = user.plan.m, 0.0, Work(), Search(first_width(user.plan), 0)
    combines = later_width(user.plan) < first_width(user.plan)  # else the directions that were found last go on
    for before, width in _blocks(user):
        d = before + width
        long += _times(float(m * d), width) * (_OF_BASIS + combines) + Work(qr=_QR * m * width**2)
        sent = 8.0 * m * width
        long += Work(memory=(_COPIES_OF_IMAGE + _SENT) * sent, aes=2.0 * sent, hashed=sent)
        search = search.at(0) if d < search.computed else search  # a basis that started again
        if search.due(d, 0 if by_share(user.plan) else user.plan.planned_rank):
            search = search.at(d)
            small += (_SVD if d < _MANY * user.r else _SQUARES) * d**3
    yield Piece("products", Work(gemm=small) + long, once=True)


def acceptance(user: User) -> Pieces:
    """What user 1 sends, compared with what this user would send; it is the same, bit for bit, on like machines."""
    sent = sum(8.0 * user.plan.m * width for _, width in _blocks(user))
    yield Piece("products", Work(memory=2.0 * sent))


def regression(user: User) -> Pieces:
    """On components: labels times own vectors, and what these leave; the table is of r numbers a target."""
    plan = user.plan
    yield Piece("regression", Work(gemm=(4.0 * user.n_i + 2.0 * plan.m) * plan.planned_rank * plan.targets))
