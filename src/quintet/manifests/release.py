"""The installation files of a release: manifests, Helm chart, OLM bundle and catalog.

Archives are reproducible: they contain no timestamps, no owners and no order of the file system.
"""

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from quintet import __version__
from quintet.components import Component
from quintet.manifests.helm.chart import CHART, chart
from quintet.manifests.installation import KIAGNOSE, QUINTET
from quintet.manifests.olm import BUNDLE, PACKAGE, Release, bundle, catalog, dockerfile, hub_settings
from quintet.manifests.operator import operator, quintet_object
from quintet.manifests.text import as_yaml


def release(
    components: Sequence[Component], offered: Release | None = None, earlier: str = ""
) -> dict[Path, bytes]:
    """Return all files by their path below `dist`; `earlier` is the catalog of the previous version."""
    chosen = offered or Release()
    texts = {
        Path("install.yaml"): as_yaml(*operator(components, QUINTET)),
        Path("quintet.yaml"): as_yaml(quintet_object(QUINTET)),
        Path("kiagnose-install.yaml"): as_yaml(*operator(components, KIAGNOSE)),
        Path("kiagnose-quintet.yaml"): as_yaml(quintet_object(KIAGNOSE)),
        Path("catalog") / PACKAGE / "catalog.yaml": catalog(components, chosen, earlier),
        Path("operators") / PACKAGE / "ci.yaml": hub_settings(),
        BUNDLE / "bundle.Dockerfile": dockerfile(),
    }
    bundled = bundle(components, chosen)
    texts |= {BUNDLE / path: content for path, content in bundled.items()}
    submission = Path("operators") / PACKAGE / __version__
    texts |= {submission / path: content for path, content in bundled.items()}
    files = {path: content.encode() for path, content in texts.items()}
    files[Path(f"quintet-{__version__}.tgz")] = archive(
        {path.relative_to(CHART.parent): content.encode() for path, content in chart(components).items()}
    )
    return files


def archive(files: Mapping[Path, bytes]) -> bytes:
    """A compressed archive of files, always of the same bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path.as_posix())
            entry.size, entry.mode = len(content), 0o644
            packed.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)
