"""The command demo: from nothing to one working object of every kind, then everything is put away again.

`command` has the options → `course` begins and ends it → `stages` are where it can play → `suite` installs
Quintet there → `samples` has one object of each kind and the proof that it works → `play` runs them side by
side → `report` has the words at the end.
"""

from quintet.cli.demo.command import demo

__all__ = ["demo"]
