"""What a study would refuse of one party's table, as far as its owner can know alone: for ``fedsvd look``.

The table is prepared as the job file says, with the party's own numbers in the place of the joint ones: these change no
name and leave no other gap. Whether tables fit together is found when all have enlisted.
"""

from fedsvd.data.source import MatrixSource
from fedsvd.errors import FedSVDError
from fedsvd.prepare.derived import names_of
from fedsvd.studies.job_data import job_party_data, vertical
from fedsvd.studies.job_file import Job, study_of
from fedsvd.studies.own_table import named_table
from fedsvd.studies.parties import expect_distinct


def own_faults(job: Job, source: MatrixSource) -> list[FedSVDError]:
    """All that is wrong with this table for this job, each an error with its fix."""
    study = job.study
    try:
        source = named_table(job, "this party", source).source
        held = set(names_of(source))
        labels = [name for name in study.label if name in held] if vertical(job) else study.label
        data = job_party_data(job, source, labels, alone=True)
        if data.ids is not None and (study_of(job).check_ids or job.match.align is not None):
            expect_distinct(data.ids, str(len(data.ids)))
    except FedSVDError as error:
        return [*error.problems] or [error]
    return list(data.table.faults())
