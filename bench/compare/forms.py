"""What `edgeseg export` made of each precision: the form it took, and what it refused before."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import FAILED, Result


@dataclass(frozen=True, kw_only=True)
class FormRow:
    """One form of one model, and on how many data sets it was taken."""

    model: str = field(metadata=column("model"))
    form: str = field(metadata=column("exported as"))
    times: str = field(metadata=column("times"))
    why: str = field(metadata=column("what was refused before it"))


def forms_table(models: Iterable[tuple[str, Sequence[Result]]]) -> Iterator[Table]:
    """A table of all that was exported or refused; none where nobody wrote it down."""
    rows = [row for model, results in models for row in _rows(model, results)]
    if rows:
        yield table_of("What the export made of it", rows)


def _rows(model: str, results: Sequence[Result]) -> Iterator[FormRow]:
    known = [result for result in results if "form" in result or FAILED in result]
    forms = Counter(str(result.get("form", "refused")) for result in known)
    for form, count in forms.items():
        alike = [result for result in known if result.get("form", "refused") == form]
        yield FormRow(
            model=model,
            form=form,
            times=f"{count} of {len(known)}",
            why="; ".join(dict.fromkeys(filter(None, map(_why, alike)))),
        )


def _why(result: Result) -> str:
    if FAILED in result:
        return str(result[FAILED])
    refused = result.get("refused", {})
    return "; ".join(f"{form}: {', '.join(failures)}" for form, failures in refused.items())
