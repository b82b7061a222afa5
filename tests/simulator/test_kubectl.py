"""kubectl works against the simulated cluster: the tour that docs/kubectl.md shows."""

import pytest

from tests.nursery import ROOT
from tests.simulator.kubectl_tour import STEPS, run


@pytest.mark.timeout(300)
def test_every_step_of_the_tour_ends_as_it_should():
    wrong = [
        f"$ kubectl {done.step.command} ended with {done.code}\n{done.output}"
        for done in run()
        if done.step.code not in (-1, done.code) or any(word not in done.output for word in done.step.words)
    ]
    assert wrong == []


def test_the_page_shows_every_step():
    page = (ROOT / "docs" / "kubectl.md").read_text()
    assert [step.command for step in STEPS if f"$ kubectl {step.command}\n" not in page] == []
