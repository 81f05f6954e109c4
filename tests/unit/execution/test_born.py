"""Children are born again where the fork server died while one was asked for."""

from __future__ import annotations

import socket
import tempfile

import pytest

from harness.runs import local
from harness.system.errors import UsageError


@pytest.mark.parametrize("spare", [0, -1])
def test_a_temporary_folder_is_refused_exactly_where_no_socket_fits(tmp_path, monkeypatch, spare):
    room = local.SOCKET_PATH - len("/pymp-12345678/listener-12345678") - len(f"{tmp_path}/") - spare
    folder = tmp_path / ("x" * room)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    place = f"{tempfile.mkdtemp(prefix='pymp-')}/listener-12345678"  # as multiprocessing names it
    with socket.socket(socket.AF_UNIX) as made:
        if spare == 0:
            made.bind(place)
            local._check_socket_path()
            return
        with pytest.raises(OSError, match="path too long"):
            made.bind(place)
    with pytest.raises(UsageError, match="TMPDIR is longer than 75 bytes"):
        local._check_socket_path()
