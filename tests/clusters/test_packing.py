"""A snapshot's body in buckets: it opens as it was, and the next one costs what changed."""

import random
import zlib
from dataclasses import replace

import msgspec

from apps.clusters.packing import Opener, Packer
from apps.kube.gateway import JOBS, NODES, PODS
from apps.kube.translate import build_snapshot
from tests.kube.objects import node, owned, pod


def large_picture(pods: int = 700):
    raws = [pod(f"pod-{number}", on="node-a") for number in range(pods)]
    return build_snapshot("lab", {NODES: [node()], PODS: raws, JOBS: [owned("Job", "work")]}, 1000.0)


def changed_at_random(snapshot, rng, step):
    """One pod gone, one new, one different."""
    pods = dict(snapshot.pods)
    gone, other = rng.sample(sorted(pods), 2)
    new = replace(pods.pop(gone), uid=f"new-{step}", name=f"new-{step}")
    return replace(
        snapshot,
        taken_at=snapshot.taken_at + 1,
        pods={**pods, new.uid: new, other: replace(pods[other], ready=step % 2 == 0, priority=step)},
    )


def test_each_picture_of_a_watch_opens_as_it_was_and_has_the_digest_of_a_fresh_one():
    rng, packer, opener, snapshot = random.Random(5), Packer(), Opener(), large_picture()
    for step in range(6):
        assert packer.digest(snapshot) == Packer().digest(snapshot)
        assert opener.open(packer.pack(snapshot)) == snapshot
        snapshot = changed_at_random(snapshot, rng, step)


def test_the_next_picture_shares_what_did_not_change():
    packer, opener, before = Packer(), Opener(), large_picture()
    first = opener.open(packer.pack(before))
    uid = min(before.pods)
    after = replace(before, pods={**before.pods, uid: replace(before.pods[uid], priority=7)})
    second = opener.open(packer.pack(after))
    assert second.pods[uid].priority == 7
    assert second.nodes["node-a"] is first.nodes["node-a"]
    shared = sum(1 for key, one in second.pods.items() if one is first.pods[key])
    assert len(before.pods) * 0.7 < shared < len(before.pods)


def test_a_cluster_that_grows_and_empties_is_still_packed_whole():
    packer, opener, whole = Packer(), Opener(), large_picture()
    few = replace(whole, pods=dict(list(whole.pods.items())[:3]))
    for snapshot in (few, whole, few, replace(whole, pods={})):
        assert packer.digest(snapshot) == Packer().digest(snapshot)
        assert opener.open(packer.pack(snapshot)) == snapshot


def test_a_body_from_before_the_buckets_still_opens():
    snapshot = large_picture(3)
    assert Opener().open(zlib.compress(msgspec.json.encode(snapshot))) == snapshot
