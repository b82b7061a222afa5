import pytest

from apps.planner.inventory import LabelSelector, Node, NodeTerm, Pod, Requirement, Taint, Toleration
from apps.planner.selectors import matches, meets, node_matches_terms, tolerates

LABELS = {"tier": "gold", "size": "8"}


@pytest.mark.parametrize(
    ("operator", "key", "values", "holds"),
    [
        ("In", "tier", ("gold", "silver"), True),
        ("In", "absent", ("gold",), False),
        ("NotIn", "tier", ("gold",), False),
        ("NotIn", "absent", ("gold",), True),
        ("Exists", "tier", (), True),
        ("DoesNotExist", "absent", (), True),
        ("Gt", "size", ("7",), True),
        ("Lt", "size", ("8",), False),
        ("Gt", "tier", ("7",), False),
        ("Near", "tier", ("gold",), False),
    ],
)
def test_an_expression_holds_as_in_kubernetes(operator, key, values, holds):
    assert meets(Requirement(key, operator, values), LABELS) is holds


def test_no_selector_selects_nothing_and_an_empty_one_everything():
    assert not matches(None, LABELS)
    assert matches(LabelSelector(), LABELS)


def test_terms_are_ored_and_an_empty_term_matches_no_node():
    node = Node("a", labels=LABELS)
    gold, bronze = (NodeTerm((Requirement("tier", "In", (tier,)),)) for tier in ("gold", "bronze"))
    named = NodeTerm(fields=(Requirement("metadata.name", "In", ("b",)),))

    assert node_matches_terms(node, ())
    assert node_matches_terms(node, (bronze, gold))
    assert not node_matches_terms(node, (bronze, named))
    assert not node_matches_terms(node, (NodeTerm(),))


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("gpu", "Exists"), True),
        (Toleration("gpu", "Equal", "yes"), True),
        (Toleration("gpu", "Equal", "no"), False),
        (Toleration("", "Exists"), True),
        (Toleration("gpu", "Exists", effect="NoExecute"), False),
        (Toleration("gpu", "Exists", effect="NoSchedule"), True),
        (Toleration("cpu", "Exists"), False),
    ],
)
def test_a_toleration_covers_its_key_value_and_effect(toleration, tolerated):
    pod = Pod("u", "n", "p", tolerations=(toleration,))

    assert tolerates(pod, (Taint("gpu", "yes"),)) is tolerated


def test_a_taint_that_only_prefers_keeps_nobody_away():
    assert tolerates(Pod("u", "n", "p"), (Taint("gpu", "yes", "PreferNoSchedule"),))
