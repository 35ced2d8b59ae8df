"""`edgeseg completion`: let a shell complete commands, options and files."""

import click
from click.shell_completion import get_completion_class

VARIABLE = "_EDGESEG_COMPLETE"  # click's own, by which the script asks for completions


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, options and files.

    \b
    eval "$(edgeseg completion bash)"    in ~/.bashrc
    eval "$(edgeseg completion zsh)"     in ~/.zshrc, after compinit
    edgeseg completion fish > ~/.config/fish/completions/edgeseg.fish
    """
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"{shell}: this version of click has no completion for it")
    click.echo(script(ctx.find_root().command, {}, "edgeseg", VARIABLE).source())
