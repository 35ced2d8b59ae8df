"""Names say what a thing does or is, and no name stands for two things."""

from tests.support.names import classes_of_two_meanings, docstrings_that_begin_late, participles

# The word by which a field of a record becomes an option, in every declaration of one.
ESTABLISHED = {"edgeseg.base.typed_options.typed"}


def test_no_class_name_stands_for_two_things():
    assert classes_of_two_meanings() == {}


def test_functions_say_who_acts():
    """`told` does not; `tell` and `planted_defects`, a noun of what is returned, do."""
    alone = {name for name in participles() if "_" not in name.rpartition(".")[2].strip("_")}
    assert alone == ESTABLISHED


def test_docstrings_begin_with_what_a_thing_does():
    assert docstrings_that_begin_late() == []
