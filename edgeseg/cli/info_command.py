"""`edgeseg info`."""

import json
from pathlib import Path
from typing import Any

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.files import size_text
from edgeseg.base.messages import Setting
from edgeseg.base.options import PATH, json_option, trust_option
from edgeseg.base.plain import record
from edgeseg.decision.explain import explained_facts
from edgeseg.decision.kinds import KnownKinds
from edgeseg.decision.why import Reasons
from edgeseg.modelfile.header import calibration_facts, read_artefact_file
from edgeseg.modelfile.metadata import MODEL_SUFFIXES
from edgeseg.modelfile.seal import HASH_STATE
from edgeseg.modelfile.signature import admit, signature_facts

_LISTED = 12  # values of a list that are shown one by one


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--operators",
    is_flag=True,
    help="List the graph's operators beside what Hailo, RKNN, Coral, QNN and TensorRT publicly say "
    "they take, and where the graph would be cut for each.",
)
@json_option
@trust_option
def info(model: Path, operators: bool, as_json: bool, trust: tuple[Path, ...]) -> None:
    """Say what a model file is: an .edgeseg artefact, an .onnx graph or a .plan engine.

    \b
    edgeseg info bottle.edgeseg
    edgeseg info bottle.onnx --operators
    """
    admit(model, trust)
    if operators:
        _print_operators(model, as_json=as_json)
        return
    if model.suffix in MODEL_SUFFIXES:
        from edgeseg.runtime.backends.inspect_file import describe

        facts: dict[str, Any] = describe(model)
    else:
        facts = artefact_facts(model)
    facts["signature"] = signature_facts(model)
    if as_json:
        click.echo(json.dumps(facts, indent=2, sort_keys=True))
        return
    click.echo(f"{model} ({size_text(model.stat().st_size)})")
    _print_nested(facts, indent=2)


def _print_operators(model: Path, *, as_json: bool) -> None:
    if model.suffix not in MODEL_SUFFIXES:
        raise UsageError(
            Setting("operators", True),
            f": {model.name} has no graph yet; give the .onnx file of `edgeseg export`",
        )
    from edgeseg.runtime.accelerators.operator_report import describe_operators, operator_lines

    facts = describe_operators(model)
    if as_json:
        click.echo(json.dumps(facts, indent=2, sort_keys=True))
        return
    click.echo("\n".join(operator_lines(facts)))


def artefact_facts(model: Path) -> dict[str, Any]:
    """Read what is shown of a fitted model."""
    header = read_artefact_file(model).header
    words = {"method": calibration_facts(header).method}
    reasons = record(Reasons, header["reasons"]) if "reasons" in header else None
    kinds = record(KnownKinds, header["kinds"]) if "kinds" in header else None
    shown = header | explained_facts(reasons, kinds)
    return shown | {
        "calibration": header["calibration"] | words,
        "size_bytes": model.stat().st_size,
        "hash": HASH_STATE,
    }


def _print_nested(facts: dict[str, Any], *, indent: int) -> None:
    for name, value in facts.items():
        if isinstance(value, dict):
            click.echo(" " * indent + name)
            _print_nested(value, indent=indent + 2)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            click.echo(" " * indent + name)
            for facts_of_one in value:
                named = facts_of_one.items() if isinstance(facts_of_one, dict) else ()
                line = ", ".join(f"{key} {'-' if fact is None else fact}" for key, fact in named)
                click.echo(" " * (indent + 2) + line)
        elif isinstance(value, list) and value and isinstance(value[0], list):
            click.echo(" " * indent + f"{name:<20} {len(value)} x {len(value[0])} values")
        elif isinstance(value, list) and len(value) > _LISTED:
            words = f"{len(value)} values, {value[0]} to {value[-1]}"
            click.echo(" " * indent + f"{name:<20} {words}")
        else:
            click.echo(" " * indent + f"{name:<20} {value}")
