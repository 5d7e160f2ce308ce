"""A device is opened by its name, or its absence is said; panels reach it whole, in order, and come back unchanged."""

import sys

import numpy as np
import pytest

from fedsvd.errors import ConfigError, MissingExtra, NoDevice
from fedsvd.linalg.device import Device, open_device

X = np.random.default_rng(0).normal(size=(7, 5))


@pytest.fixture
def device(library):
    return Device("test", library.array([0.0]))


@pytest.mark.parametrize("name", [None, "cpu"])
def test_the_cpu_is_numpy_without_a_device(name):
    assert open_device(name) is None


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:-1", "tpu:0", "", 0])
def test_a_name_that_is_no_device_is_refused_with_those_that_are(name):
    with pytest.raises(ConfigError, match="torch-cpu"):
        open_device(name)


def test_without_pytorch_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"fedsvd\[gpu\]"):
        open_device("cuda")


@pytest.mark.torch
def test_a_gpu_that_is_not_there_is_an_error_of_its_own(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NoDevice, match=r"FSVD-111.*none was found.*device = \"cpu\""):
        open_device("cuda")


@pytest.mark.torch
def test_the_cpu_through_pytorch_is_a_device():
    torch = pytest.importorskip("torch")
    device = open_device("torch-cpu")
    assert device.put(X).dtype == torch.float64
    np.testing.assert_array_equal(device.get(device.put(X)), X)


def test_what_is_put_comes_back_in_memory_of_its_own(device, library):
    A = X.copy()
    there = device.put(A)
    library.numpy(there)  # refuses arrays of another library
    back = device.get(there)
    np.testing.assert_array_equal(back, X)
    back += 1.0
    np.testing.assert_array_equal(library.numpy(device.put(A)), X)


@pytest.mark.parametrize(
    "arrange", [np.asfortranarray, lambda A: A[::-1], lambda A: A[::2, 1:]], ids=["Fortran", "backwards", "cut"]
)
def test_panels_of_any_layout_arrive(device, library, arrange):
    A = arrange(X)
    A.flags.writeable = False
    np.testing.assert_array_equal(library.numpy(device.put(A)), A)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_panels_moved_ahead_keep_their_order(device, library, count):
    panels = [X + step for step in range(count)]
    arrived = [library.numpy(panel) for panel in device.ahead(iter(panels))]
    np.testing.assert_array_equal(np.array(arrived), np.array(panels).reshape(np.shape(arrived)))


def test_the_next_panel_is_on_its_way_before_one_is_worked_on(device):
    asked = []

    def panels():
        for step in range(4):
            asked.append(step)
            yield X

    seen = [len(asked) for _ in device.ahead(panels())]
    assert seen == [2, 3, 4, 4]


def test_memory_is_writeable_and_of_the_asked_type(device):
    buffer = device.buffer((3, 4), np.int64)
    buffer[:] = 7
    assert buffer.dtype == np.int64
    assert buffer.shape == (3, 4)


def test_a_device_shows_its_name_alone(device):
    assert repr(device) == "Device(test)"
