"""What a credential may do: by the list where the server has a whole one, else by the exact question."""

import pytest

from apps.kube.errors import Forbidden
from apps.kube.gateway import CONFIG_MAPS, NODES, PODS
from apps.kube.own_rights import NOWHERE, OwnRights
from apps.kube.reviews import read_rules

OURS = "gpu-defrag"


def rule(verbs, resources, *, groups=("",), names=()):
    found = {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}
    return {**found, "resourceNames": list(names)} if names else found


class Server:
    """Answers as an API server does: `lists` by namespace (NOWHERE for the whole cluster), `may` exactly."""

    def __init__(self, lists=(), may=(), **status):
        self.lists, self.allowed = dict(lists), set(may)
        self.status = {"incomplete": False, **status}
        self.asked = []

    def own_rules(self, namespace):
        self.asked.append(namespace)
        if not self.lists:
            raise Forbidden("selfsubjectrulesreviews is forbidden")
        return read_rules({"status": {"resourceRules": self.lists.get(namespace, []), **self.status}})

    def may(self, verb, kind, *, namespace="", subresource="", name=""):
        question = " ".join(one for one in (verb, kind.plural, subresource, namespace, name) if one)
        self.asked.append(question)
        return question in self.allowed


@pytest.mark.parametrize(
    ("found", "is_granted"),
    [
        (rule(["create"], ["pods/eviction"]), True),
        (rule(["*"], ["*"], groups=["*"]), True),
        (rule(["create"], ["*/eviction"]), True),
        (rule(["create"], ["pods"]), False),
        (rule(["create"], ["pods/status"]), False),
        (rule(["get"], ["pods/eviction"]), False),
        (rule(["create"], ["pods/eviction"], groups=["policy"]), False),
        (rule(["create"], ["pods/eviction"], names=["web-1"]), False),
    ],
)
def test_a_rule_grants_what_rbac_grants(found, is_granted):
    rights = OwnRights(Server({NOWHERE: [found]}))
    assert rights.may("create", PODS, subresource="eviction") is is_granted


def test_many_questions_take_one_list_for_each_namespace():
    server = Server({NOWHERE: [rule(["get", "patch"], ["nodes"])], OURS: [rule(["create"], ["pods"])]})
    rights = OwnRights(server)
    answers = [rights.may(verb, NODES) for verb in ("get", "patch", "get")]
    assert [*answers, rights.may("create", PODS, namespace=OURS)] == [True] * 4
    assert server.asked == [NOWHERE, OURS]


def test_what_the_list_does_not_show_is_asked_exactly_and_once():
    server = Server({NOWHERE: [rule(["get"], ["nodes"])]}, may=["list nodes"])
    rights = OwnRights(server)
    assert [rights.may(verb, NODES) for verb in ("patch", "list", "patch")] == [False, True, False]
    assert server.asked == [NOWHERE, "patch nodes", "list nodes"]


def test_what_is_granted_in_one_namespace_alone_is_not_taken_for_the_whole_cluster():
    server = Server({NOWHERE: [], OURS: [rule(["create"], ["pods"])]})
    assert not OwnRights(server).may("create", PODS)


def test_a_right_to_one_named_object_is_that_and_no_more():
    server = Server({OURS: [rule(["get"], ["configmaps"], names=["kill-switch"])]})
    rights = OwnRights(server)
    assert rights.may("get", CONFIG_MAPS, namespace=OURS, name="kill-switch")
    assert not rights.may("get", CONFIG_MAPS, namespace=OURS)


@pytest.mark.parametrize(
    "status", [{"incomplete": True}, {"evaluationError": "webhook"}, {"incomplete": None}]
)
def test_a_list_that_is_not_the_whole_truth_is_not_gone_by(status):
    everything = [rule(["*"], ["*"], groups=["*"])]
    server = Server({NOWHERE: everything, OURS: everything}, may=["get nodes"], **status)
    rights = OwnRights(server)
    assert rights.may("get", NODES)
    assert not rights.may("create", PODS, namespace=OURS)
    assert server.asked == [NOWHERE, "get nodes", "create pods gpu-defrag"]


def test_without_a_list_every_question_is_asked():
    server = Server(may=["get nodes"])
    rights = OwnRights(server)
    assert (rights.may("get", NODES), rights.may("patch", NODES)) == (True, False)
    assert server.asked == [NOWHERE, "get nodes", "patch nodes"]
