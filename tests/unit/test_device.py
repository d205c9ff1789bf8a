"""All that computes runs on one thread, whoever asks; errors and closing reach where they belong."""

import threading
from collections.abc import Iterator

import pytest

from specdemo.device import DeviceThread


def test_items_are_made_advanced_and_closed_on_one_thread_whoever_asks() -> None:
    device, seen = DeviceThread(), []

    def items() -> Iterator[int]:
        try:
            for index in range(3):
                seen.append(threading.get_ident())
                yield index
        finally:
            seen.append(threading.get_ident())

    found: list[list[int]] = []
    for _ in range(2):
        asker = threading.Thread(target=lambda: found.append(list(device.iterate(items))))
        asker.start()
        asker.join(10)
    assert found == [[0, 1, 2]] * 2
    assert len(seen) == 8
    assert set(seen) == {device.submit(threading.get_ident).result()} != {threading.get_ident()}


def test_leaving_early_closes_the_items_before_anything_else_runs() -> None:
    device, is_closed = DeviceThread(), []

    def items() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            is_closed.append(True)

    updates = device.iterate(items)
    next(updates)
    updates.close()
    assert is_closed == [True]


def test_an_error_is_the_askers_and_the_thread_goes_on() -> None:
    device = DeviceThread()

    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(device.iterate(items))
    assert device.submit(lambda: 5).result() == 5
