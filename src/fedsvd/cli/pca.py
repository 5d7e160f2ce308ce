"""``fedsvd pca``: principal components of tables whose rows are split over the parties."""

from fedsvd.cli.job_options import job_from_options
from fedsvd.cli.options import (
    BlockSize,
    Components,
    DeviceOption,
    EngineOption,
    FormatOption,
    Id,
    Memory,
    ModeOption,
    Name,
    Out,
    Overwrite,
    Parties,
    Quiet,
    Release,
    SchemeName,
    SchemeOption,
    Scratch,
    TrustOption,
    UnitVariance,
    WriteOption,
)
from fedsvd.cli.rungs import Consent, Env, Environment, PolicyOption, carry_out_on
from fedsvd.cli.voice import Format, Voice
from fedsvd.protocol.tasks import Task, Trust, Write


def pca(
    party: Parties,
    components: Components = None,
    unit_variance: UnitVariance = False,
    id: Id = None,
    release: Release = None,
    scheme: SchemeOption = SchemeName.AUTO,
    mode: ModeOption = None,
    trust: TrustOption = Trust.PEERS,
    block_size: BlockSize = None,
    memory: Memory = None,
    device: DeviceOption = None,
    engine: EngineOption = None,
    write: WriteOption = Write.NPY,
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
    """Principal components of the joint table, without a job file."""
    job = job_from_options(
        Task.PCA,
        party,
        components=components,
        unit_variance=unit_variance,
        id=id,
        release=release,
        scheme=scheme,
        mode=mode,
        trust=trust,
        block_size=block_size,
        memory=memory,
        device=device,
        engine=engine,
        write=write,
        name=name,
    )
    carry_out_on(env, Voice(format, quiet), job, out, overwrite, scratch, policy, consent)
