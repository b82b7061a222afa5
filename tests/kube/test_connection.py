"""An API server whose answer drips in holds nobody."""

from contextlib import closing

import pytest

from apps.kube.connection import Connection, Request
from apps.kube.errors import Unreachable
from apps.kube.kubeconfig import Credentials
from apps.simulator.api_server.certificates import issue_certificate
from tests.dripping import PLACES, dripping


@pytest.mark.parametrize(("first", "again"), PLACES)
def test_an_answer_that_drips_in_is_given_up(first, again):
    certificate = issue_certificate()
    with dripping(first, again, certificate.server_context()) as port:
        credentials = Credentials(server=f"https://127.0.0.1:{port}", ca=certificate.ca_pem, token="t")
        asked = Connection(credentials, connect_seconds=0.5, read_seconds=0.5)
        with closing(asked), pytest.raises(Unreachable, match="no answer within|too slow"):
            asked.ask(Request("GET", "/version"))
