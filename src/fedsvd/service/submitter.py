"""Who submitted a job: the researcher whose signature stands on it, whatever the CSP says."""

from datetime import UTC, datetime

from fedsvd.errors import NotAuthenticated, NotSealed
from fedsvd.identity.kit import Kit, check_peer
from fedsvd.identity.names import Identity, KitRole
from fedsvd.service.enlist import member_callers
from fedsvd.service.records import JobRecord


def submitter_of(kit: Kit, record: JobRecord) -> Identity:
    """The researcher who signed this job as it stands, in our federation; whether its key is pinned is not asked.

    Members are what follows from the file, so a CSP that leaves one out or adds one is found here.
    """
    if not record.signature or not record.certificate:
        raise NotAuthenticated(
            f"job {record.short} is not signed by {record.submitter}",
            "if it was submitted with fedsvd 0.2 or older, submit it again; else stop and ask the operator of the CSP",
        )
    identity = check_peer(kit, record.certificate.encode(), (KitRole.RESEARCHER,), datetime.now(UTC))
    if str(identity) != record.submitter or record.members != member_callers(record.job):
        raise NotAuthenticated(
            f"the CSP shows the certificate of {identity} for {record.submitter}, or other members than the job's",
            "stop and ask the operator of the CSP",
        )
    try:
        record.asked.expect_signed(identity.signing_public, record.signature)
    except NotSealed:
        raise NotAuthenticated(
            f"job {record.short} is not what {identity} signed",
            "do not approve it; stop and ask the operator of the CSP",
        ) from None
    return identity
