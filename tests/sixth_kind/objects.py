"""`python -m sixth_kind.objects`: print the objects that install the Greeting controller, as JSON."""

import json
import sys

import sixth_kind.__main__  # noqa: F401  # registers the kind

if __name__ == "__main__":
    from kit.cluster.service_accounts import TESTED
    from quintet.apis.suite import QuintetSpec
    from quintet.components import COMPONENTS
    from quintet.manifests.installation import installer, objects

    installed = installer(tuple(COMPONENTS.values()), TESTED)(QuintetSpec(controllers=("greeting",)), {})
    json.dump(objects(installed), sys.stdout)
