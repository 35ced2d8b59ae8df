"""The command line: click and nothing else; what commands do stands in the other rooms."""

from edgeseg.cli.group import main as main
