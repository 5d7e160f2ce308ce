"""A BLAS kernel that does not compute here is skipped with a line that says so; days take turns among the others."""

from datetime import date, timedelta

from tests import kernel


def test_a_kernel_that_no_library_has_is_skipped_with_the_reason(capsys):
    assert kernel.main("Abacus") == 1
    said = capsys.readouterr().out
    assert said.startswith("BLAS kernel Abacus: skipped, ")
    assert said.count("\n") == 1


def test_days_take_turns_among_the_kernels_that_add_something():
    cores = ["SkylakeX", "Haswell", "Sandybridge", "Nehalem"]
    monday = date(2026, 11, 16)
    days = [monday + timedelta(days=count) for count in range(6)]
    found = [kernel.of_date(day, cores, lambda core: "its own" if core == "SkylakeX" else "") for day in days]
    assert sorted(found[:3]) == ["Haswell", "Nehalem", "Sandybridge"]
    assert found[3:] == found[:3]


def test_a_machine_without_another_kernel_has_none():
    assert kernel.of_date(date(2026, 11, 16), ["Haswell"], lambda core: "skipped") == ""
