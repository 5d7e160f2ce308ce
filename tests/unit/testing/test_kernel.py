"""A BLAS kernel that does not compute here is skipped with a line that says so."""

from tests import kernel


def test_a_kernel_that_no_library_has_is_skipped_with_the_reason(capsys):
    assert kernel.main("Abacus") == 1
    said = capsys.readouterr().out
    assert said.startswith("BLAS kernel Abacus: skipped, ")
    assert said.count("\n") == 1
