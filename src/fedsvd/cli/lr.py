"""``fedsvd lr``: linear regression, ordinary or ridge, over split rows or columns."""

from fedsvd.cli.job_options import job_from_options
from fedsvd.cli.options import (
    Alpha,
    BlockSize,
    DeviceOption,
    EngineOption,
    FormatOption,
    Id,
    IdsOption,
    Intercept,
    Label,
    LabelParty,
    Memory,
    Name,
    Out,
    Overwrite,
    Parties,
    Quiet,
    Release,
    SchemeName,
    SchemeOption,
    Scratch,
    SortById,
    SplitOption,
    TrustOption,
)
from fedsvd.cli.rungs import Consent, Env, Environment, PolicyOption, carry_out_on
from fedsvd.cli.voice import Format, Voice
from fedsvd.protocol.tasks import Ids, Split, Task, Trust


def lr(
    party: Parties,
    label: Label,
    split: SplitOption = Split.HORIZONTAL,
    label_party: LabelParty = None,
    alpha: Alpha = 0.0,
    intercept: Intercept = True,
    id: Id = None,
    sort_by_id: SortById = False,
    ids: IdsOption = Ids.COMPARE,
    release: Release = None,
    scheme: SchemeOption = SchemeName.AUTO,
    trust: TrustOption = Trust.PEERS,
    block_size: BlockSize = None,
    memory: Memory = None,
    device: DeviceOption = None,
    engine: EngineOption = None,
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
    """Linear regression on the joint table, without a job file."""
    job = job_from_options(
        Task.LR,
        party,
        label=label,
        split=split,
        label_party=label_party,
        alpha=alpha,
        intercept=intercept,
        id=id,
        sort_by_id=sort_by_id,
        ids=ids,
        release=release,
        scheme=scheme,
        trust=trust,
        block_size=block_size,
        memory=memory,
        device=device,
        engine=engine,
        name=name,
    )
    carry_out_on(env, Voice(format, quiet), job, out, overwrite, scratch, policy, consent)
