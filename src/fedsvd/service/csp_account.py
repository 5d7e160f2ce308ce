"""What a CSP writes of a job that is done: shapes, bytes and times, and no result."""

from collections.abc import Mapping
from dataclasses import replace

from fedsvd.engine.player import Played
from fedsvd.protocol.parties import CSP
from fedsvd.protocol.plan import SessionPlan
from fedsvd.results.result import PartyResult, certificate_of
from fedsvd.results.write import write_result
from fedsvd.service.jobs import accounts_sent
from fedsvd.service.records import JobRecord, Progress
from fedsvd.service.site import Site
from fedsvd.studies.submitted import submitted_file


def write_account(
    site: Site, record: JobRecord, plan: SessionPlan, played: Played, progress: Mapping[str, Progress]
) -> None:
    """Write what this site, a CSP's, saw of a job: no result of it."""
    names = tuple(party.name for party in record.job.parties)
    certificate = certificate_of(plan, played.result, accounts_sent(progress))
    about = PartyResult(job=record.name, names=names, plan=plan, certificate=certificate)
    account = replace(about, file=submitted_file(record.job, every=True)).for_role(CSP)
    write_result(site.results_of(record), account, overwrite=True, draw=site.draw)
