"""``anew completion``: the script that lets a shell complete the words of ``anew``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete commands and options.

    \b
    Examples:
      eval "$(anew completion bash)"                                     in ~/.bashrc (bash 4.4 or newer)
      eval "$(anew completion zsh)"                                      in ~/.zshrc, after compinit
      anew completion fish > ~/.config/fish/completions/anew.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three shells"
    click.echo(kind(ctx.find_root().command, {}, "anew", "_ANEW_COMPLETE").source())
