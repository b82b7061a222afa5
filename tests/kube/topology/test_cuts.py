"""Whatever is cut off or put around a table: no smaller machine, no wrong link, no traceback."""

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.kube.topology.documents import read_topology
from tests.kube.topology.texts import LEGEND, hives, links, table

SCHEMES = st.sampled_from(
    [links(4, "NV12"), links(8, "NV18"), hives(2, 2, inside="NV1"), hives(4, 4, inside="PIX"), hives(3, 1),
     hives(2, 2, 2, inside="NV2", between="NODE")]
)  # fmt: skip


@st.composite
def machines(draw):
    """(text, codes, NUMA nodes or None)"""
    codes = draw(SCHEMES)
    size = len(codes)
    nics = [f"NIC{at}" for at in range(draw(st.sampled_from([0, 0, 1, 2, 11])))]
    has_affinity = draw(st.booleans())
    numa = [str(draw(st.integers(0, 3))) for _ in range(size)] if has_affinity else None
    text = table(
        codes,
        nics=nics,
        nic_codes=[["SYS"] * len(nics)] * size,
        cpu=[f"{8 * at}-{8 * at + 7}" for at in range(size)] if has_affinity else None,
        numa=numa,
        own=["N/A"] * size if has_affinity and draw(st.booleans()) else None,
        tabs=draw(st.booleans()),
        nic_rows=draw(st.booleans()),
    )
    return text + draw(st.sampled_from(["", LEGEND])), codes, numa and list(map(int, numa))


def holds(found, codes, numa):
    """Nothing is told that the whole table does not say."""
    if found.error or found.gpus is None:
        return True
    size = len(codes)
    right = found.gpus >= size
    for a, row in enumerate((found.links or ())[:size]):
        right = right and all(cell in ("", codes[a][b]) for b, cell in enumerate(row[:size]))
    for told, true in zip(found.numa or (), numa or (), strict=False):
        right = right and told in (None, true)
    return right


@settings(max_examples=120, deadline=None)
@given(machines(), st.floats(0, 1))
def test_the_beginning_of_a_table(machine, share):
    text, codes, numa = machine
    found = read_topology(text[: int(len(text) * share)])
    assert holds(found, codes, numa)


@settings(max_examples=80, deadline=None)
@given(machines(), st.data())
def test_a_table_without_some_of_its_lines_below_the_header(machine, data):
    text, codes, numa = machine
    lines = text.splitlines()
    lost = data.draw(st.sets(st.integers(1, len(lines) - 1), max_size=4))
    found = read_topology("".join(f"{line}\n" for at, line in enumerate(lines) if at not in lost))
    assert found.gpus == len(codes)
    assert holds(found, codes, numa)
    assert not found.complete or not any(1 <= at <= len(codes) for at in lost)


@settings(max_examples=80, deadline=None)
@given(machines(), st.integers(6, 120))
def test_a_table_cut_at_a_column(machine, width):
    text, codes, numa = machine
    found = read_topology("\n".join(line[:width] for line in text.splitlines()))
    assert holds(found, codes, numa)


@settings(max_examples=80, deadline=None)
@given(
    machines(),
    st.sampled_from(
        ["", "    ", "# ", "#", "> ", "2026-01-02 03:04:05 node-7 ", "[1,0]<stdout>:", "\x1b[1m"]
    ),
    st.sampled_from(["", " ", "\t", "\r", "\x1b[0m", "   \x1b[0m"]),
    st.sampled_from(["", "user@gpu3:~$ nvidia-smi topo -m\n", "GPU 0: some card (UUID: GPU-1)\n"]),
)
def test_what_is_put_around_changes_nothing(machine, before, after, above):
    text, codes, numa = machine
    dressed = above + "\n".join(f"{before}{line}{after}" for line in text.splitlines()) + "\n"
    plain, found = read_topology(text), read_topology(dressed)
    assert found.links == plain.links == tuple(map(tuple, codes))
    assert (found.gpus, found.numa, found.nics, found.complete) == (
        plain.gpus,
        plain.numa,
        plain.nics,
        plain.complete,
    )


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *'GPUNIC0123456789 \t\n,:-[]{}"XSYA=/',
                "GPU0",
                "GPU1",
                "NV12",
                " CPU Affinity ",
                "\x00",
                "\u202e",
            ]
        ),
        max_size=200,
    ).map("".join)
)
def test_any_text_is_answered(text):
    found = read_topology(text)
    assert found.error or found.gpus
    for row in found.links or ():
        assert len(row) == found.gpus
