"""How the images of this version are called: every default that names an image is one of these.

Read by `cli`, `manifests` and `local.images`, which builds them.
"""

from quintet import __version__

QUINTET = f"quintet.local/quintet:{__version__}"
JSON_SERVER = "quintet.local/json-server:0.17.4"
NATS = "quintet.local/nats:2.15.2"


def beside(image: str, known: str) -> str:
    """An image in the version that it says, from where a known one comes from."""
    repository = known.partition("@")[0]
    folder, slash, name = repository.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}:{image.rpartition(':')[2]}"
