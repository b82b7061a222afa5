"""`manage.py serve_extender`: bad input is one clear line."""

import pytest
from django.core.management import CommandError, call_command

from tests.plans.situations import make_cluster

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (["--cluster", "nowhere"], "there is no watched cluster 'nowhere'"),
        (["--listen", "8890"], "--listen wants HOST:PORT"),
        (["--bind", "--listen", "0.0.0.0:8890"], "--bind changes the cluster"),
        (["--client-ca", "ca.crt"], "--client-ca wants TLS"),
        (["--reserved-mib", "-1"], "--reserved-mib is -1: take 0 to 1000000"),
        (["--stale-after", "nan"], "--stale-after is nan: take 5 to 600"),
    ],
)
def test_what_cannot_be_served_is_told_before_anything_is_asked_of_the_cluster(told, words):
    make_cluster()
    with pytest.raises(CommandError, match=words) as refused:
        call_command("serve_extender", *([] if "--cluster" in told else ["--cluster", "east"]), *told)
    assert refused.value.returncode == 2
