"""The files of the public data sets: what they are called, where they come from officially, and their checksums.

A checksum is over the *content*, not over an archive, so that a folder may hold files plain or gzipped. MovieLens may
not be passed on (its licence): it is fetched by those who need it, or not at all.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class DataFile:
    """One file of a data set; ``member`` where the official place offers it inside a zip archive."""

    name: str
    url: str
    sha256: str
    member: str = ""
    sorted_lines: bool = False  # the checksum is over the lines in order, because copies differ in theirs


@dataclass(frozen=True)
class DataSet:
    """A public data set: its folder's name, its files, how to cite it, what its licence asks."""

    name: str
    files: tuple[DataFile, ...]
    citation: str
    licence: str


_UCI = "https://archive.ics.uci.edu/static/public/186/wine+quality.zip"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_GROUPLENS = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"


def _mnist(name: str, sha256: str) -> DataFile:
    return DataFile(name, f"{_MNIST}/{name}.gz", sha256)


WINE = DataSet(
    "wine",
    (
        DataFile(
            "winequality-red.csv",
            _UCI,
            "4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
            member="winequality-red.csv",
        ),
        DataFile(
            "winequality-white.csv",
            _UCI,
            "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
            member="winequality-white.csv",
        ),
    ),
    "Cortez, Cerdeira, Almeida, Matos, Reis, Decision Support Systems 47(4), 2009",
    "CC BY 4.0",
)
MNIST = DataSet(
    "mnist",
    (
        _mnist("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        _mnist("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        _mnist("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        _mnist("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
    "LeCun, Bottou, Bengio, Haffner, Proceedings of the IEEE 86(11), 1998",
    "CC BY-SA 3.0",
)
MOVIELENS = DataSet(
    "ml-100k",
    (
        DataFile(
            "u.data",
            _GROUPLENS,
            "3c61dc9b90a365d2ac50bdee9df8024ddf0eea4b1a15678d9934a77e75fe0ede",
            member="ml-100k/u.data",
            sorted_lines=True,
        ),
        DataFile(
            "u.user",
            _GROUPLENS,
            "f120e114da2e8cf314fd28f99417c94ae9ddf1cb6db8ce0e4b5995d40e90e62c",
            member="ml-100k/u.user",
        ),
    ),
    "Harper and Konstan, ACM Transactions on Interactive Intelligent Systems 5(4), 2015",
    "research use only, not to be passed on",
)
ALL = {data_set.name: data_set for data_set in (WINE, MNIST, MOVIELENS)}
