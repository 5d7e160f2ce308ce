"""``fedsvd audit-openings``: an owner plays attacks on opened sums on its own table, and reads which rule stops each.

Nothing is sent and nothing written: all parties are played by the owner's own records, and what is said are counts.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsvd.cli.options import FormatOption, Scratch
from fedsvd.cli.output import Format, Output, duration, facts, listing


def audit_openings(
    data: Annotated[Path, typer.Argument(help="Your own table; its records play all parties.")],
    label: Annotated[str, typer.Option("--label", help="The column that models are fitted to.")],
    event: Annotated[
        str | None, typer.Option("--event", help="The column of events, 0 or 1, where the label is a time.")
    ] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="Your policy.toml; the rules of a new kit.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which records which party has, and of noise.")] = 0,
    scratch: Scratch = None,
    format: FormatOption = Format.TEXT,
) -> None:
    """Read your own records from sums that studies open, and say which rule stops it."""
    # Imported here: --help needs none of the attacks.
    from fedsvd.audit.openings import audit_openings as played
    from fedsvd.data.open import open_source
    from fedsvd.policy.policy_file import read_policy
    from fedsvd.policy.rules import Policy

    rules = Policy() if policy is None else read_policy(policy)
    record = played(open_source(data, scratch=scratch), label, rules, seed, event).record()
    Output(format).answer(record, lambda console: _show(console, record))


def _show(console: Console, record: dict[str, Any]) -> None:
    console.print(
        facts(
            {
                "played": f"{record['records']} records, {record['columns']} columns of numbers without gaps",
                "columns left out": ", ".join(record["left_out"]) or "none",
                "time": duration(record["seconds"]),
            }
        )
    )
    rows = [(each["attack"], each["studies"] or "", _read(each), _stop(each)) for each in record["attacks"]]
    console.print(listing(("attack", "studies", "read of the other parties, exactly", "what stops it"), rows))
    console.print(f"not played: {'; '.join(record['not_played'])}")


def _read(each: dict[str, Any]) -> str:
    if not each["of"]:
        return f"not played: {each['note']}"
    chance = "" if each["by_chance"] is None else f"; a guess has {each['by_chance']}"
    return f"{each['read']} of {each['of']} {each['unit']} ({100 * each['share']:.0f} %){chance}"


def _stop(each: dict[str, Any]) -> str:
    if not each["of"]:
        return ""
    verdict, note = each["verdict"], f" ({each['note']})" if each["note"] else ""
    rules = f": {', '.join(verdict['rules'])}" if verdict["rules"] else ""
    return f"{verdict['stop']}{rules}{note}"
