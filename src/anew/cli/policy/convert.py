"""``anew policy convert``: delivery policies of other systems in Anew's form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from anew.cli.output import show_json
from anew.cli.values import read_document

if TYPE_CHECKING:
    from anew.topics.foreign_policy import ZaqarMode, ZaqarOwner


@click.command("convert")
@click.argument("given", metavar="FILE")
@click.option(
    "--from", "source", type=click.Choice(["sns", "zaqar"]), required=True, help="Whose policy it is."
)
@click.option(
    "--mode",
    type=click.Choice(["as_shipped", "as_documented"]),
    help="Of Zaqar's: the waits that it really makes, or those that its documentation means. [as_shipped]",
)
@click.option(
    "--of",
    "owner",
    type=click.Choice(["queue", "subscription"]),
    help="Of Zaqar's: what has the policy. A subscription also has headers. [queue]",
)
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: policy, warnings, lock.")
def convert_policy(
    given: str, source: str, mode: ZaqarMode | None, owner: ZaqarOwner | None, as_json: bool
) -> None:
    """Put a delivery policy of Amazon SNS or OpenStack Zaqar into Anew's form.

    FILE has it as JSON; - is stdin, and JSON itself may stand there too. For SNS that is a topic's or a subscription's
    DeliveryPolicy, for Zaqar a _retry_policy, alone or in a queue's metadata or a subscription's options. No server is
    asked.

    The policy goes to stdout, warnings to stderr.

    \b
    Examples:
      anew policy convert --from sns delivery-policy.json > policy.json
      anew policy convert --from zaqar '{"minimum_delay": 5, "maximum_delay": 60}' | anew policy preview -
      anew policy convert --from zaqar --mode as_documented --of subscription options.json --json
    """
    from anew.topics.foreign_policy import from_sns, from_zaqar

    is_sns = source == "sns"
    if is_sns and (mode or owner):
        raise click.UsageError(f"--{'mode' if mode else 'of'} is for --from zaqar")
    document = read_document(given)
    converted = from_sns(document) if is_sns else from_zaqar(document, mode or "as_shipped", owner or "queue")
    if as_json:
        warnings, lock = converted.warnings, converted.lock
        show_json({"policy": converted.policy, "warnings": warnings, "lock_delivery_policy": lock})
        return
    show_json(converted.policy)
    for warning in converted.warnings:
        click.echo(f"Warning: {warning}", err=True)
    if converted.lock:
        click.echo("Note: the topic wants lock_delivery_policy, which is no part of a policy", err=True)
