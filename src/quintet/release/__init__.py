"""Everything that a release consists of: `python -m quintet.release VERSION`, below `dist`."""
