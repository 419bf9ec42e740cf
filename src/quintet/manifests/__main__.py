"""`python -m quintet.manifests [--check]`: write the generated files, or list those that are out of date."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from quintet.apis.resources import CustomResource
from quintet.components import COMPONENTS, CUSTOM_RESOURCES, Component
from quintet.kinds import all_kinds
from quintet.manifests.files import differences, generate, write
from quintet.manifests.reasons import reason_files


def main(
    arguments: Sequence[str] | None = None,
    declared: Sequence[CustomResource] = CUSTOM_RESOURCES,
    components: Sequence[Component] = (),
) -> int:
    """Return the exit code: 1 if a check found outdated files."""
    parser = argparse.ArgumentParser(
        prog="python -m quintet.manifests", description="Write the generated files."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the root of the repository")
    options = parser.parse_args(arguments)
    files = generate(declared, components)
    if components:
        files |= reason_files(options.root, {each.name: Path(each.docs_page) for each in all_kinds()})
    if not options.check:
        for path in write(options.root, files):
            sys.stdout.write(f"{'wrote' if path in files else 'removed'} {path}\n")
        return 0
    outdated = differences(options.root, files)
    if outdated:
        listed = "".join(f"  {path}\n" for path in outdated)
        sys.stderr.write(f"these generated files are out of date:\n{listed}next step: make generate\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(components=tuple(COMPONENTS.values())))
