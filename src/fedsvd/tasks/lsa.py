"""Latent semantic analysis: an SVD of a matrix of counts or ratings, of which few components are taken."""

from fedsvd.protocol.tasks import Answer, Item, Own, Split, Task
from fedsvd.tasks.declared import Declared
from fedsvd.tasks.factors import OUTPUTS, factorised

TASK = Declared(
    Task.LSA,
    Answer.FACTORS,
    tuple(Split),
    released=(Item.COMPONENTS, Item.SPECTRUM, Item.OWN_PART),
    own=Own.VECTORS,
    c=80,
    by_steps=True,
    steps=factorised,
    outputs=OUTPUTS,
)
