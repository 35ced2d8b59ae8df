"""`edgeseg keygen`, `edgeseg sign` and `edgeseg verify-signature`: whose models a device runs."""

import json
from pathlib import Path

import click

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import file_sha256
from edgeseg.base.messages import Setting
from edgeseg.base.options import FILE, PATH, command_line, json_option, note, trust_option
from edgeseg.modelfile.metadata import MODEL_SUFFIXES, PLAN_SUFFIXES
from edgeseg.modelfile.signature import (
    LARGEST_VERSION,
    Statement,
    check_signature,
    read_signature,
    sign,
)
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.runtime.backends.model_file import file_metadata

_CHAIN = {".edgeseg": "artefact_sha256", ".onnx": "onnx_sha256"}  # what a signature calls them


@click.command()
@click.argument("key", type=FILE)
def keygen(key: Path) -> None:
    """Make a pair of keys: KEY to sign with, and a .pub beside it to give to devices.

    Keep KEY where models are made, and nowhere else: who has it can sign anything.

    \b
    edgeseg keygen owner.key
    """
    private, public = make_keys(key)
    following = command_line("sign", "MODEL", "--key", private)
    note(f"wrote {private} (keep it secret) and {public}; next: {following}")


@click.command("sign")
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--key", type=FILE, required=True, help="The private key of `edgeseg keygen`.")
@click.option(
    "--version",
    type=click.IntRange(1, LARGEST_VERSION),
    help="Version that is signed.  [default: one more than the last signature here, or 1]",
)
def sign_files(files: tuple[Path, ...], key: Path, version: int | None) -> None:
    """Sign FILES: models with their sidecars, or all that is in the folder of a recipe.

    The signature lies beside the file (part.onnx.sig) or in the folder (edgeseg.sig). It holds the
    name, a version that grows, the hashes of the files and of what the model was made from:
    artefact, graph, plan. A station refuses another name, and a version below the one it ran.

    \b
    edgeseg sign part.edgeseg part.onnx --key owner.key
    edgeseg sign recipes/bottle --key owner.key
    """
    for path in files:
        target = sign(path, key, chain=chain_of(path), version=version)
        signed = read_signature(path)
        number = 0 if signed is None else signed.statement.version
        public = key.with_suffix(".pub").name
        note(f"wrote {target}, version {number}; a device with --trust {public} takes it")


@click.command("verify-signature")
@click.argument("files", nargs=-1, required=True, type=PATH)
@trust_option
@json_option
def verify_signature(files: tuple[Path, ...], trust: tuple[Path, ...], as_json: bool) -> None:
    """Say who signed FILES, and whether they are still what was signed.

    Files that were made of each other are held together: the hash of an artefact against the graph
    that names it, the hash of a graph against the plan that was built from it, and the hash of a
    graph or plan against the recipe that holds a copy of it.

    \b
    edgeseg verify-signature part.edgeseg part.onnx recipes/part --trust owner.pub
    """
    if not trust:
        raise UsageError(
            Setting("trust"), ": expected at least one public key to hold signatures against"
        )
    statements = {path: check_signature(path, trust) for path in files}
    chains = _links(statements)
    if as_json:
        facts = {
            str(path): {
                "name": statement.name,
                "version": statement.version,
                "key": statement.key,
                "when": statement.when,
                "files": statement.files,
                "chain": statement.chain,
                "made_from": [str(other) for other in chains[path]],
            }
            for path, statement in statements.items()
        }
        click.echo(json.dumps(facts, indent=2))
        return
    for path, statement in statements.items():
        made = "".join(f", made from {other}" for other in chains[path])
        names = ", ".join(statement.files)
        click.echo(
            f"{path}: signed by {statement.key} at {statement.when}, version {statement.version} "
            f"({names}){made}"
        )


def chain_of(path: Path) -> dict[str, str]:
    """Hashes of what a model says it was made from; for a recipe, those of its models."""
    if path.is_dir():
        models = [each for each in sorted(path.iterdir()) if each.suffix in MODEL_SUFFIXES]
        return {name: digest for each in models for name, digest in chain_of(each).items()}
    if path.suffix not in MODEL_SUFFIXES:
        return {}
    metadata = file_metadata(path)
    chain = {"artefact_sha256": metadata.artefact_sha256}
    if path.suffix in PLAN_SUFFIXES and metadata.onnx_sha256 is not None:
        chain["onnx_sha256"] = metadata.onnx_sha256
    return {name: value for name, value in chain.items() if value}


def _links(statements: dict[Path, Statement]) -> dict[Path, list[Path]]:
    """Find which of the files each one was made from; a false claim is an error."""
    hashes = {path: file_sha256(path) for path in statements if path.is_file()}
    links: dict[Path, list[Path]] = {}
    for path, statement in statements.items():
        for suffix in (".edgeseg", *MODEL_SUFFIXES):
            _check_origin(path, suffix, _origin_hashes(path, statement, suffix), hashes)
        named = {*statement.chain.values(), *(statement.files.values() if path.is_dir() else ())}
        links[path] = [each for each in hashes if each != path and hashes[each] in named]
    return links


def _origin_hashes(path: Path, statement: Statement, suffix: str) -> set[str]:
    """Hashes of the files with `suffix` that a file was made from, or that a recipe holds."""
    chain = statement.chain.get(_CHAIN.get(suffix, ""))
    named = set() if chain is None else {chain}
    if path.is_dir():
        named |= {digest for name, digest in statement.files.items() if Path(name).suffix == suffix}
    return named


def _check_origin(path: Path, suffix: str, named: set[str], hashes: dict[Path, str]) -> None:
    """Refuse a file that was made from another file than those given beside it.

    A file has the stem of what it was made from; a recipe may have any name.
    """
    kin = [
        other
        for other in hashes
        if other != path and other.suffix == suffix and (path.is_dir() or other.stem == path.stem)
    ]
    if named and kin and not any(hashes[other] in named for other in kin):
        told = " or ".join(f"{digest[:12]}..." for digest in sorted(named))
        raise RuntimeFailure(
            f"{path}: made from another file than {kin[0]}; its signature names {told}, and that "
            f"is {hashes[kin[0]][:12]}..."
        )
