"""Options of ``[dictionary]``: the consortium's codebook, as a file or as what it says."""

from functools import partial

from fedsvd.tasks.option import CLI, Option
from fedsvd.tasks.values import RECORD, TEXT, optional

_dictionary = partial(Option, section="dictionary")

DICTIONARY = (
    _dictionary(
        "file",
        optional(TEXT),
        None,
        "The consortium's dictionary.toml: columns are its own, with units and levels.",
        (
            "the consortium's `dictionary.toml` ([a dictionary for your consortium](howto/dictionary.md)), seen from "
            "the job file. The job then names its columns and groups, and nothing else; units, ranges and levels are "
            "those of the dictionary, and a table that falls short of them is refused at home"
        ),
        names={CLI: "dictionary"},
        metavar="FILE",
    ),
    _dictionary(
        "says",
        RECORD,
        {},
        "",
        (
            "what that file says, word for word; a job file leaves it out, and a job that is submitted has it. A party "
            "refuses a job whose dictionary is not the one it has"
        ),
        unset="what the file says",
        names={CLI: ""},
    ),
)
