"""A text that is redrawn."""

import io
import os
import shutil

from quintet.cli import output


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def show(monkeypatch, *texts: list[str]) -> str:
    """Return what is written to a terminal with 20 columns and 4 lines."""
    stdout, screen = Terminal(), output.Screen()
    monkeypatch.setattr("sys.stdout", stdout)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 4)))
    for text in texts:
        screen.show(text)
    return stdout.getvalue()


def test_screen_on_terminal_replaces_lines(monkeypatch):
    assert show(monkeypatch, ["one", "two"], ["three"]) == "\x1b[Jone\ntwo\n\x1b[2F\x1b[Jthree\n"


def test_screen_on_terminal_crops_to_its_size(monkeypatch):
    shown = show(monkeypatch, ["x" * 30, "2", "3", "4", "5"], ["end"])
    assert shown == f"\x1b[J{'x' * 19}…\n2\n3\n\x1b[3F\x1b[Jend\n"


def test_screen_elsewhere_prints_changed_text_once(capsys):
    screen = output.Screen()
    for text in (["one"], ["one"], ["two"]):
        screen.show(text)
    assert capsys.readouterr().out == "one\n\ntwo\n"
