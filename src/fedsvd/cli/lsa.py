"""``fedsvd lsa``: latent semantic analysis, the top singular vectors of large sparse tables."""

from fedsvd.cli.job_options import job_from_options
from fedsvd.cli.options import (
    BlockSize,
    Components,
    DeviceOption,
    EngineOption,
    FormatOption,
    Id,
    IdsOption,
    Memory,
    ModeOption,
    Name,
    Out,
    Overwrite,
    Parties,
    Quiet,
    SchemeName,
    SchemeOption,
    Scratch,
    SortById,
    SplitOption,
    TrustOption,
    VerifyOption,
    WriteOption,
)
from fedsvd.cli.rungs import Consent, Env, Environment, PolicyOption, carry_out_on
from fedsvd.cli.voice import Format, Voice
from fedsvd.protocol.tasks import Check, Ids, Split, Task, Trust, Write


def lsa(
    party: Parties,
    components: Components = None,
    split: SplitOption = Split.HORIZONTAL,
    id: Id = None,
    sort_by_id: SortById = False,
    ids: IdsOption = Ids.COMPARE,
    scheme: SchemeOption = SchemeName.AUTO,
    mode: ModeOption = None,
    trust: TrustOption = Trust.PEERS,
    block_size: BlockSize = None,
    memory: Memory = None,
    device: DeviceOption = None,
    engine: EngineOption = None,
    write: WriteOption = Write.NPY,
    verify: VerifyOption = Check.NONE,
    name: Name = None,
    env: Env = Environment.SIM,
    policy: PolicyOption = None,
    consent: Consent = False,
    out: Out = None,
    overwrite: Overwrite = False,
    scratch: Scratch = None,
    quiet: Quiet = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """Latent semantic analysis of the joint table, without a job file."""
    job = job_from_options(
        Task.LSA,
        party,
        components=components,
        split=split,
        id=id,
        sort_by_id=sort_by_id,
        ids=ids,
        scheme=scheme,
        mode=mode,
        trust=trust,
        block_size=block_size,
        memory=memory,
        device=device,
        engine=engine,
        write=write,
        verify=verify,
        name=name,
    )
    carry_out_on(env, Voice(format, quiet), job, out, overwrite, scratch, policy, consent)
