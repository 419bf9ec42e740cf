"""The methods to install Quintet: install, upgrade to the next version, uninstall."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e.kubectl_client import KubectlClient
from kit.install.versions import Version
from quintet.components import COMPONENTS
from quintet.install.installer import operator_objects as goes_with_the_operator
from quintet.manifests.installation import KIAGNOSE, QUINTET, Flavour
from quintet.manifests.operator import operator, quintet_object

Helm = Callable[..., Any]
SECONDS = 500
TWO = ("jsonserver", "checkup")


@dataclass(frozen=True)
class InstallMethod:
    """One method; `system` is the operator's namespace."""

    system: KubectlClient
    flavour: Flavour = QUINTET
    controllers: tuple[str, ...] = TWO

    @property
    def spec(self) -> dict[str, Any]:
        return {"controllers": list(self.controllers), "replicas": 2}

    def install(self, version: Version) -> None:
        raise NotImplementedError

    def upgrade(self, after: Version) -> None:
        raise NotImplementedError

    def uninstall(self, after: Version) -> None:
        raise NotImplementedError

    def stays(self) -> set[str]:
        """Return what is left on purpose besides CRDs and user objects."""
        return set()

    def ask(self) -> None:
        """Create the Quintet."""
        self.system.apply(quintet_object(self.flavour, self.spec))

    def forget(self) -> None:
        """Delete the Quintet and wait until no controller runs."""
        self.system.kubectl("delete", "quintets", "quintet", "--timeout=120s")
        self.system.kubectl(
            "wait", "pods", "--for=delete", f"--timeout={SECONDS}s", "-l",
            "app.kubernetes.io/managed-by=quintet-operator",
        )  # fmt: skip


class ByCommand(InstallMethod):
    """`quintet install`, `quintet upgrade`, `quintet uninstall`."""

    def install(self, version: Version) -> None:
        chosen = [f"--controllers={name}" for name in self.controllers]
        self._run(version, "install", *chosen, "--replicas=2")

    def upgrade(self, after: Version) -> None:
        self._run(after, "upgrade")

    def uninstall(self, after: Version) -> None:
        self._run(after, "uninstall")

    def stays(self) -> set[str]:
        """Return the roles for users, who may still have objects, and the namespace."""
        bodies = operator(tuple(COMPONENTS.values()), self.flavour)
        gone = goes_with_the_operator(bodies)
        roles = {f"clusterroles.rbac.authorization.k8s.io /{body['metadata']['name']}"
                 for body in bodies if body["kind"] == "ClusterRole" and body not in gone}  # fmt: skip
        return roles | a_namespace(self.flavour.namespace)

    def _run(self, version: Version, *arguments: str) -> str:
        where = ("--kubeconfig", str(self.system.cluster.kubeconfig), "--timeout", str(SECONDS))
        done = version.command(*arguments, *where)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{describe_cluster(self.system)}"
        return done.stdout


class ByCommandWithData(ByCommand):
    """`quintet uninstall` that also deletes CRDs and user objects."""

    def uninstall(self, after: Version) -> None:
        said = self._run(after, "uninstall", "--delete-data", "--yes")
        assert "so is everything that was made with it" in said

    def stays(self) -> set[str]:
        return set()


class ByKustomize(InstallMethod):
    """`kubectl apply -k`, `kubectl delete -k`."""

    @property
    def folder(self) -> str:
        return "config/kiagnose" if self.flavour is KIAGNOSE else "config/operator"

    def install(self, version: Version) -> None:
        self.system.kubectl("apply", "-k", str(version.root / self.folder))
        self.system.kubectl("apply", "-f", str(version.root / self.folder / "quintet.yaml"))

    def upgrade(self, after: Version) -> None:
        self.system.kubectl("apply", "-k", str(after.root / self.folder))

    def uninstall(self, after: Version) -> None:
        self.forget()
        self.system.kubectl("delete", "-k", str(after.root / self.folder), f"--timeout={SECONDS}s")


class ByFiles(InstallMethod):
    """`kubectl apply -f` with the files of a release."""

    def install(self, version: Version) -> None:
        self._apply(version)
        self.ask()

    def upgrade(self, after: Version) -> None:
        self._apply(after)

    def uninstall(self, after: Version) -> None:
        self.forget()
        self.system.kubectl("delete", "-f", str(after.dist / "install.yaml"), f"--timeout={SECONDS}s")

    def _apply(self, version: Version) -> None:
        self.system.kubectl("apply", "-f", str(version.dist / "install.yaml"))


@dataclass(frozen=True)
class ByHelm(InstallMethod):
    """`helm install`, `helm upgrade`, `helm uninstall`."""

    helm: Helm | None = None

    def install(self, version: Version) -> None:
        # Helm itself would make a namespace that takes pods of any kind.
        name = self.flavour.namespace
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": name, "labels": labels}
        self.system.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        controllers = f"quintet.spec.controllers={{{','.join(self.controllers)}}}"
        self._run("install", "quintet", _chart(version), "--set", controllers)

    def upgrade(self, after: Version) -> None:
        self._run("test", "quintet", "--timeout", f"{SECONDS}s")
        self._run("upgrade", "quintet", _chart(after), "--reuse-values")

    def uninstall(self, after: Version) -> None:
        self._run("uninstall", "quintet", "--wait", "--timeout", f"{SECONDS}s")

    def stays(self) -> set[str]:
        """Return the namespace, which does not belong to the chart."""
        return a_namespace(self.flavour.namespace)

    def _run(self, *arguments: str) -> None:
        assert self.helm is not None
        where = ("--namespace", self.flavour.namespace, "--kubeconfig", str(self.system.cluster.kubeconfig))
        done = self.helm(*arguments, *where)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{describe_cluster(self.system)}"


def _chart(version: Version) -> str:
    return str(version.dist / f"quintet-{version.version}.tgz")


def a_namespace(name: str) -> set[str]:
    """Return a namespace and the objects that Kubernetes creates in each."""
    return {f"namespaces /{name}", f"configmaps {name}/kube-root-ca.crt", f"serviceaccounts {name}/default"}


def describe_cluster(place: KubectlClient) -> str:
    """Describe the cluster for an assertion message."""
    columns = "custom-columns=ABOUT:.involvedObject.name,REASON:.reason,MESSAGE:.message"
    asked = (
        ("get", "quintets", "-o", "yaml"),
        ("get", "pods", "-A", "-o", "wide"),
        ("get", "events", "-o", columns),
        ("logs", "-l", "app.kubernetes.io/part-of=quintet", "--tail=20", "--prefix", "--max-log-requests=20"),
    )
    return "\n".join(place.run(*each).stdout for each in asked)
