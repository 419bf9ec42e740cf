"""Fixtures for tests of code that kills and removes."""

import os
import shutil
import signal
from pathlib import Path

import pytest


@pytest.fixture
def harmless(tmp_path, monkeypatch):
    """Record signals instead of sending them, and remove only below `tmp_path`, so that a bug harms nothing."""
    sent = []

    def below(path):
        place = Path(path).absolute()
        assert tmp_path in (place.parent.resolve() / place.name).parents, f"{path} is not of this test"

    def only_below(remove):
        def removed(path, *arguments, **options):
            if options.get("dir_fd") is None:
                below(path)
            return remove(path, *arguments, **options)

        return removed

    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(pid))
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(pid))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda descriptor, number: sent.append(descriptor))
    for module, name in ((os, "rmdir"), (os, "unlink"), (os, "remove"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, only_below(getattr(module, name)))
    return sent
