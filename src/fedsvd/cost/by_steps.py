"""The local work of a user in the family ``steps``, label by label; each function is an entry of ``labels.py``.

Each counts what all steps take together, where its label comes first.
"""

from fedsvd.cost.rates import Piece, Work
from fedsvd.cost.users import Pieces, User
from fedsvd.linalg.verdicts import Search
from fedsvd.protocol.directions import by_share, first_width, later_width, most_steps, reach

_FOUR_NORMS = 4.0
_SVD = 20.0  # flops of a small SVD for each entry and column
_SQUARES, _MANY = 5.0, 2  # the same of the leading ones, where there are as many times more
_SPARSE = 2.0  # bytes of fresh arrays that take as long as a stored entry times one number, with 3 to 28 columns
_OF_COLUMNS = 3.0  # products of a block with earlier columns: one in each of two passes, and what is taken off
_PASSES, _OWN = 4.0, 16.0  # flops for each entry of the basis and column of an image, and of the image by itself


def _blocks(user: User) -> list[tuple[int, int]]:
    """The columns before each expected block, and its own."""
    plan, found = user.plan, []
    for step in range(min(len(user.expected.passes), 1 + most_steps(plan))):
        width = first_width(plan) if step == 0 else later_width(plan)
        found.append((reach(plan, step) - width, width))
    return found


def _product(user: User, columns: float) -> Work:
    """The cost of X_i, or its transpose, times this number of columns; X_i is read once for each step."""
    entries, steps = user.stored * user.plan.m * user.n_i, len(user.expected.passes)
    if user.stored < 1.0:
        return Work(memory=(8.0 * steps + _SPARSE * columns) * entries)
    return Work(gemm=2.0 * entries * columns, memory=8.0 * entries * steps)


def lengths(user: User) -> Pieces:
    """Norms of all features at this user; where there are means these say it."""
    if not user.plan.centre:
        yield Piece("products", Work(memory=8.0 * _FOUR_NORMS * user.stored * user.plan.m * user.n_i))


def directions(user: User) -> Pieces:
    """A block times the data, and less what earlier columns have of it."""
    blocks = _blocks(user)
    orthogonal = sum(2.0 * user.n_i * _OF_COLUMNS * (before + width) * width for before, width in blocks)
    basis = float((3 * user.plan.m + user.n_i) * max(map(sum, blocks)))
    work = _product(user, sum(width for _, width in blocks) + user.r) + Work(gemm=orthogonal)
    yield Piece("products", work, basis, keeps=(("basis", basis),))


def products(user: User) -> Pieces:
    """The image of each block, and of the vectors at the end."""
    columns = sum(width for _, width in _blocks(user)) + user.r
    yield Piece("products", _product(user, columns), float(user.plan.m * first_width(user.plan)))


def ritz_values(user: User) -> Pieces:
    """What an image has outside of the basis, and a small SVD where the directions have grown."""
    m, small, long, search = user.plan.m, 0.0, 0.0, Search(first_width(user.plan), 0)
    for before, width in _blocks(user):
        d = before + width
        long += _PASSES * m * d * width + _OWN * m * width**2
        search = search.at(0) if d < search.computed else search  # a basis that started again
        if search.due(d, 0 if by_share(user.plan) else user.plan.planned_rank):
            search = search.at(d)
            small += (_SVD if d < _MANY * user.r else _SQUARES) * d**3
    yield Piece("products", Work(gemm=small + long))


def acceptance(user: User) -> Pieces:
    """What user 1 sends, tested: directions that each image has outside of all that is known."""
    yield Piece("products", Work(gemm=sum(_OWN * user.plan.m * width**2 for _, width in _blocks(user))))


def regression(user: User) -> Pieces:
    """On components: labels times own vectors, and what these leave; the table is of r numbers a target."""
    plan = user.plan
    yield Piece("regression", Work(gemm=(4.0 * user.n_i + 2.0 * plan.m) * plan.planned_rank * plan.targets))
