"""The PyPI `kubernetes` client against a running server. Prints one `ok NAME` per step; any failure is a traceback."""

import json
import threading
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

NAMESPACE = "python"
BOATS = {"group": "example.dev", "version": "v1", "namespace": NAMESPACE, "plural": "boats"}


def refused(call, code, reason):
    """The Status of a call that must be refused."""
    try:
        call()
    except ApiException as error:
        status = json.loads(error.body)
        assert error.status == code, error
        assert status["kind"] == "Status" and status["status"] == "Failure", status
        assert status["code"] == code and status["reason"] == reason, status
        return status
    raise AssertionError(f"should be refused with {code} {reason}")


def eventually(what, holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"still not true: {what}"
        time.sleep(0.02)


def core_kinds(core):
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    made = core.create_namespaced_config_map(
        NAMESPACE, client.V1ConfigMap(metadata={"name": "c", "labels": {"a": "b"}}, data={"k": "1"})
    )
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo
    read = core.read_namespaced_config_map("c", NAMESPACE)
    assert read.data == {"k": "1"} and read.metadata.uid == made.metadata.uid
    patched = core.patch_namespaced_config_map("c", NAMESPACE, {"data": {"k": "2"}})
    assert patched.data == {"k": "2"}
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="a=b")
    assert [o.metadata.name for o in listed.items] == ["c"]
    made.data = {"k": "stale"}
    status = refused(
        lambda: core.replace_namespaced_config_map("c", NAMESPACE, made), 409, "Conflict"
    )
    assert "the object has been modified" in status["message"], status
    secret = core.create_namespaced_secret(
        NAMESPACE, client.V1Secret(metadata={"name": "s"}, string_data={"user": "me"})
    )
    assert secret.data == {"user": "bWU="} and secret.type == "Opaque", secret
    service = core.create_namespaced_service(
        NAMESPACE,
        client.V1Service(
            metadata={"name": "web"},
            spec=client.V1ServiceSpec(selector={"app": "web"}, ports=[client.V1ServicePort(port=80)]),
        ),
    )
    assert service.spec.cluster_ip and service.spec.ports[0].target_port == 80, service
    deleted = core.delete_namespaced_config_map("c", NAMESPACE)
    assert deleted["kind"] == "Status" and deleted["status"] == "Success", deleted


def errors(core):
    status = refused(lambda: core.read_namespaced_config_map("none", NAMESPACE), 404, "NotFound")
    assert status["message"] == 'configmaps "none" not found', status
    assert status["details"] == {"name": "none", "kind": "configmaps"}, status
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "twice"}})
    refused(
        lambda: core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "twice"}}),
        409,
        "AlreadyExists",
    )
    status = refused(
        lambda: core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "Not_A_Name"}}),
        422,
        "Invalid",
    )
    assert status["details"]["causes"][0]["field"] == "metadata.name", status
    refused(
        lambda: core.create_namespaced_config_map("nowhere", {"metadata": {"name": "c"}}), 404, "NotFound"
    )
    nobody = client.Configuration.get_default_copy()
    nobody.cert_file = nobody.key_file = None
    nobody.api_key = {"authorization": "Bearer rubbish"}
    stranger = client.CoreV1Api(client.ApiClient(nobody))
    status = refused(lambda: stranger.list_namespace(), 401, "Unauthorized")
    assert status["message"] == "Unauthorized", status


def workloads(apps):
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "example.dev/web:1"}]},
            },
        },
    }
    made = apps.create_namespaced_deployment(NAMESPACE, body)
    assert made.metadata.generation == 1 and made.spec.strategy.type == "RollingUpdate", made
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    assert scale.spec.replicas == 3, scale
    strategic = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.dev/side:1"}]}}}}
    patched = apps.patch_namespaced_deployment("web", NAMESPACE, strategic)
    assert sorted(c.name for c in patched.spec.template.spec.containers) == ["main", "side"], patched


def watches(core):
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    seen = []

    def follow():
        stream = watch.Watch().stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=60
        )
        for event in stream:
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "seen"}})
    core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"a": "b"}})
    core.delete_namespaced_config_map("seen", NAMESPACE)
    follower.join(60)
    expected = [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]
    assert seen == expected, seen
    # The same again, from history, and until the server ends it.
    began = time.monotonic()
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=1
    )
    again = [(event["type"], event["object"].metadata.name) for event in stream]
    assert again == expected and time.monotonic() - began < 30, again


def definition():
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "colour": {"type": "string", "default": "blue"},
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    return {
        "metadata": {"name": "boats.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def custom_objects(api):
    extensions = client.ApiextensionsV1Api(api)
    extensions.create_custom_resource_definition(definition())

    def established():
        crd = extensions.read_custom_resource_definition("boats.example.dev")
        conditions = crd.status.conditions or [] if crd.status else []
        return any(c.type == "Established" and c.status == "True" for c in conditions)

    eventually("the definition is established", established)
    custom = client.CustomObjectsApi(api)
    boat = {"apiVersion": "example.dev/v1", "kind": "Boat", "metadata": {"name": "b"}, "spec": {"size": 2}}
    made = custom.create_namespaced_custom_object(body=boat, **BOATS)
    assert made["spec"] == {"size": 2, "colour": "blue"}, made
    status = refused(
        lambda: custom.create_namespaced_custom_object(
            body={**boat, "metadata": {"name": "x"}, "spec": {"size": 0}}, **BOATS
        ),
        422,
        "Invalid",
    )
    assert status["message"].startswith('Boat.example.dev "x" is invalid: spec.size: Invalid value: 0'), status
    patched = custom.patch_namespaced_custom_object(name="b", body={"spec": {"size": 5}}, **BOATS)
    assert patched["spec"]["size"] == 5 and patched["metadata"]["generation"] == 2, patched
    custom.patch_namespaced_custom_object_status(name="b", body={"status": {"phase": "Afloat"}}, **BOATS)
    assert custom.get_namespaced_custom_object(name="b", **BOATS)["status"] == {"phase": "Afloat"}
    assert len(custom.list_namespaced_custom_object(**BOATS)["items"]) == 1
    stream = watch.Watch().stream(custom.list_namespaced_custom_object, timeout_seconds=1, **BOATS)
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in stream] == [("ADDED", "b")]
    custom.delete_namespaced_custom_object(name="b", **BOATS)
    refused(lambda: custom.get_namespaced_custom_object(name="b", **BOATS), 404, "NotFound")


def dynamic_client(api):
    dyn = dynamic.DynamicClient(api)
    boats = dyn.resources.get(api_version="example.dev/v1", kind="Boat")
    assert boats.namespaced and "patch" in boats.verbs and "status" in boats.subresources
    config_maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
    assert dyn.resources.get(kind="Deployment", api_version="apps/v1").name == "deployments"

    def applied(data):
        return {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa", "namespace": NAMESPACE}, "data": data,
        }

    dyn.server_side_apply(config_maps, body=applied({"a": "1"}), field_manager="one")
    both = dyn.server_side_apply(config_maps, body=applied({"b": "2"}), field_manager="two")
    assert both.data.to_dict() == {"a": "1", "b": "2"}, both
    try:
        dyn.server_side_apply(config_maps, body=applied({"a": "2", "b": "2"}), field_manager="two")
        raise AssertionError("the field is owned")
    except ConflictError as error:
        assert 'conflict with "one": .data.a' in error.summary(), error.summary()
    forced = dyn.server_side_apply(
        config_maps, body=applied({"a": "2", "b": "2"}), field_manager="two", force_conflicts=True
    )
    assert forced.data.a == "2"
    managers = {(m.manager, m.operation) for m in forced.metadata.managedFields}
    assert managers == {("two", "Apply")}, managers
    events = dyn.watch(config_maps, namespace=NAMESPACE, field_selector="metadata.name=ssa", timeout=1)
    assert [e["type"] for e in events] == ["ADDED"]
    config_maps.delete(name="ssa", namespace=NAMESPACE)
    try:
        config_maps.get(name="ssa", namespace=NAMESPACE)
        raise AssertionError("it is gone")
    except NotFoundError:
        pass


def schemas(api):
    def document(path):
        response = api.rest_client.pool_manager.request("GET", api.configuration.host + path)
        assert response.status == 200, response.data
        return json.loads(response.data)

    swagger = document("/openapi/v2")
    assert swagger["swagger"] == "2.0" and "io.k8s.api.core.v1.ConfigMap" in swagger["definitions"]
    index = document("/openapi/v3")
    url = index["paths"]["apis/example.dev/v1"]["serverRelativeURL"]
    boats = document(url)["components"]["schemas"]["dev.example.v1.Boat"]
    assert boats["properties"]["spec"]["required"] == ["size"], boats
    version = client.VersionApi(api).get_code()
    assert version.major == "1" and version.git_version.startswith("v1."), version


def main():
    config.load_kube_config()
    api = client.ApiClient()
    core = client.CoreV1Api(api)
    steps = {
        "core_kinds": lambda: core_kinds(core),
        "errors": lambda: errors(core),
        "workloads": lambda: workloads(client.AppsV1Api(api)),
        "watches": lambda: watches(core),
        "custom_objects": lambda: custom_objects(api),
        "dynamic_client": lambda: dynamic_client(api),
        "schemas": lambda: schemas(api),
    }
    for name, step in steps.items():
        step()
        print("ok", name, flush=True)


main()
