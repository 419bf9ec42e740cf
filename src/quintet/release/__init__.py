"""Writes the files of a release below `dist`: `python -m quintet.release VERSION`."""
