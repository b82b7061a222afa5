"""A kubeconfig comes from somebody else: what is accepted, and what is refused by name."""

import base64

import pytest
import yaml

from apps.kube.kubeconfig import BadKubeconfig, read_kubeconfig

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").decode()


def kubeconfig(*, cluster=None, user=None, **changes):
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://k8s.example:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "s3cret"} if user is None else user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changes,
    }
    return yaml.safe_dump(config)


def test_server_authority_and_token_are_kept():
    found = read_kubeconfig(kubeconfig(cluster={"certificate-authority-data": PEM}))
    assert (found.server, found.token) == ("https://k8s.example:6443", "s3cret")
    assert found.ca.startswith("-----BEGIN CERTIFICATE-----")
    assert "s3cret" not in repr(found)


def test_a_client_certificate_is_kept():
    found = read_kubeconfig(kubeconfig(user={"client-certificate-data": PEM, "client-key-data": PEM}))
    assert found.client_certificate
    assert found.client_key
    assert found.token == ""


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"exec": {"command": "sh", "args": ["-c", "id"]}}, "'exec' is refused"),
        ({"auth-provider": {"config": {"cmd-path": "/bin/sh"}}}, "'auth-provider' is refused"),
        ({"tokenFile": "/etc/passwd"}, "'tokenFile' is refused"),
        ({"client-certificate": "/etc/a", "client-key": "/etc/b"}, "'client-certificate' is refused"),
        ({"token": "t", "as": "system:admin"}, "'as' is refused"),
        ({"username": "a", "password": "b"}, "'password' is refused"),
        ({}, "neither a token nor client certificate"),
        ({"token": "two\nlines"}, "line breaks"),
        ({"token": 7}, "must be text"),
        ({"client-certificate-data": PEM}, "given together"),
        ({"client-certificate-data": "%%%", "client-key-data": PEM}, "not base64"),
    ],
)
def test_what_would_run_or_read_on_our_machine_is_refused(user, says):
    with pytest.raises(BadKubeconfig, match=says):
        read_kubeconfig(kubeconfig(user=user))


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        ({"certificate-authority": "/etc/ca.crt"}, "'certificate-authority' is refused"),
        ({"proxy-url": "http://127.0.0.1:1"}, "'proxy-url' is refused"),
        ({"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify is refused"),
        ({"server": "http://k8s.example"}, "https://"),
        ({"server": "file:///etc/passwd"}, "https://"),
        ({"server": "https://user:pw@k8s.example"}, "without user"),
        ({"server": "https://k8s.example:notaport"}, "https://"),
    ],
)
def test_clusters_that_cannot_be_trusted_are_refused(cluster, says):
    with pytest.raises(BadKubeconfig, match=says):
        read_kubeconfig(kubeconfig(cluster=cluster))


def test_skipping_verification_needs_a_flag():
    text = kubeconfig(cluster={"insecure-skip-tls-verify": True})
    assert read_kubeconfig(text, allow_insecure=True).skip_tls_verify


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "one YAML"),
        ("[]", "one YAML"),
        ("{unclosed", "cannot be read"),
        ("a: !!python/object/apply:os.system ['id']", "tags are refused"),
        (BOMB, "anchors and aliases are refused"),
        ("[" * 100_000, "cannot be read"),
        ("x" * 300_000, "larger than"),
        (kubeconfig(**{"current-context": "missing"}), "no entry named 'missing'"),
        (kubeconfig(users=[]), "no entry named 'u'"),
        (kubeconfig(users="what"), "no entry named 'u'"),
    ],
)
def test_broken_and_hostile_texts_give_one_sentence(text, says):
    with pytest.raises(BadKubeconfig, match=says):
        read_kubeconfig(text)


@pytest.mark.parametrize(
    "server",
    ["https://a b", "https://a..b", "https://" + "a" * 64, "https://*", "https://пример.example", "https://.",
     "https://%31.0.0.1", "https://[fe80::1%25eth0]", "https://h/p\u202e", "https://h/a b"],
)  # fmt: skip
def test_a_server_that_nobody_can_ask_is_refused(server):
    with pytest.raises(BadKubeconfig, match="server"):
        read_kubeconfig(kubeconfig(cluster={"server": server}))


@pytest.mark.parametrize(
    "server", ["https://k8s_1:6443", "https://10.0.0.1", "https://[2001:db8::1]:6443/k8s/c-1"]
)
def test_names_and_addresses_are_servers(server):
    assert read_kubeconfig(kubeconfig(cluster={"server": server})).server == server


@pytest.mark.parametrize("token", ["t✓k", "tök", "a\x7fb"])
def test_a_token_that_no_header_can_carry_is_refused(token):
    with pytest.raises(BadKubeconfig, match="token"):
        read_kubeconfig(kubeconfig(user={"token": token}))


@pytest.mark.parametrize("name", ["a\0b", "a" * 300, "ü..x", "."])
def test_a_tls_name_that_is_no_host_name_is_refused(name):
    with pytest.raises(BadKubeconfig, match="tls-server-name"):
        read_kubeconfig(kubeconfig(cluster={"tls-server-name": name}))
