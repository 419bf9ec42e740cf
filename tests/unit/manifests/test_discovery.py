"""The installation leads to discovery, and the page of the catalog is generated like everything else."""

import pytest

from kit.manifests import yamltext
from quintet.components import COMPONENTS, CUSTOM_RESOURCES
from quintet.manifests.catalog import HEADER, catalog_page
from quintet.manifests.files import CATALOG_PAGE, INSTALLATION, KYMA, differences, generate, write
from quintet.manifests.rbac import SYSTEM_NAMESPACE


@pytest.fixture(scope="module")
def files():
    return generate(CUSTOM_RESOURCES, tuple(COMPONENTS.values()))


def test_discovery_service_targets_port_of_operator(files):
    objects = list(yamltext.load_all(files[INSTALLATION / "manager.yaml"]))
    (service,) = (each for each in objects if each["metadata"]["name"] == "eventing-controller")
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    (port,) = service["spec"]["ports"]
    assert (service["metadata"]["namespace"], port["port"]) == (SYSTEM_NAMESPACE, 80)
    assert f"--discovery-address=0.0.0.0:{ports[port['targetPort']]}" in container["args"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_kyma_service_is_alias_without_namespace_object(files):
    service = yamltext.load(files[KYMA / "discovery.yaml"])
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == (
        "eventing-controller",
        "kyma-system",
    )
    assert service["spec"] == {
        "type": "ExternalName",
        "externalName": f"eventing-controller.{SYSTEM_NAMESPACE}.svc.cluster.local",
    }
    assert yamltext.load(files[KYMA / "kustomization.yaml"])["resources"] == ["discovery.yaml"]
    assert "kyma-system" not in "".join(
        text for path, text in files.items() if path.parent == INSTALLATION
    ), "installing and removing the operator leaves the namespace of others alone"


def test_catalog_page_is_generated_and_checked(files, tmp_path):
    write(tmp_path, files)
    page = tmp_path / CATALOG_PAGE
    assert page.read_text() == catalog_page()
    assert page.read_text().startswith(HEADER)
    assert differences(tmp_path, files) == []
    page.write_text(page.read_text().replace("10000", "20000"))
    assert differences(tmp_path, files) == [CATALOG_PAGE]


def test_catalog_page_tables_are_well_formed():
    rows = [line for line in catalog_page().splitlines() if line.startswith("| `")]
    assert rows
    assert {len(row.replace("\\|", "").split("|")) for row in rows} == {7}
