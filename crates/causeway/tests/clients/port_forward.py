"""Port-forward with the PyPI `kubernetes` client. Prints one `ok NAME` per step; any failure is a traceback."""

import socket
import threading
import time

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward

POD = {
    "metadata": {"name": "web"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "echo",
                "image": "causeway.dev/causeway:1",
                "args": ["echo", "--listen", "$(POD_IP):8080", "--name", "the-pod"],
                "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
                "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
            }
        ],
    },
}


def start(core):
    core.create_namespaced_pod("default", POD)
    deadline = time.monotonic() + 60
    while True:
        status = core.read_namespaced_pod("web", "default").status
        if any(c.type == "Ready" and c.status == "True" for c in status.conditions or []):
            return status.pod_ip
        assert time.monotonic() < deadline, status
        time.sleep(0.1)


def forward(core, ports):
    return portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports=ports)


def read_all(stream):
    parts = []
    while part := stream.recv(65536):
        parts.append(part)
    return b"".join(parts)


def two_ports(core, address):
    """What listens on the second port reads so much, and then says it again."""
    long = bytes(range(256)) * 4000
    listener = socket.create_server((address, 0))

    def echo():
        with listener.accept()[0] as stream:
            said = b""
            while len(said) < len(long):
                said += stream.recv(65536)
            stream.sendall(said)

    threading.Thread(target=echo, daemon=True).start()
    port = listener.getsockname()[1]
    forwarded = forward(core, f"8080,{port}")
    web, raw = forwarded.socket(8080), forwarded.socket(port)
    for stream in [web, raw]:
        stream.setblocking(True)
    web.sendall(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")
    answer = b""
    while b"the-pod" not in answer:
        part = web.recv(65536)
        assert part, answer
        answer += part
    raw.sendall(long)
    assert read_all(raw) == long
    assert forwarded.error(8080) is None and forwarded.error(port) is None


def a_closed_port(core, address):
    with socket.create_server((address, 0)) as listener:
        port = listener.getsockname()[1]
    forwarded = forward(core, str(port))
    stream = forwarded.socket(port)
    stream.setblocking(True)
    assert stream.recv(1) == b""
    error = forwarded.error(port)
    assert "error forwarding port" in error and "Connection refused" in error, error


def no_such_pod(core, _address):
    try:
        portforward(core.connect_get_namespaced_pod_portforward, "none", "default", ports="80")
    except ApiException as error:
        assert error.status == 404 or "404" in str(error), error
        return
    raise AssertionError("there is no such pod")


config.load_kube_config()
core = client.CoreV1Api()
address = start(core)
for step in [two_ports, a_closed_port, no_such_pod]:
    step(core, address)
    print("ok", step.__name__, flush=True)
