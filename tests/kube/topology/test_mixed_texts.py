"""Texts as people paste them: several tables, or a tool's block without what stands around it."""

from apps.kube.topology.documents import read_topology

LINKS = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPXB\t0-11\t0\nGPU1\tPXB\t X \t12-23\t1\n"
RIGHTS = "\tGPU0\tGPU1\n GPU0\tX\tCNS\n GPU1\tCNS\tX\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"


def test_a_table_of_rights_behind_the_links_takes_nothing_from_them():
    for text in (LINKS + "\n" + RIGHTS, RIGHTS + "\n" + LINKS):
        found = read_topology(text)
        assert (found.error, found.links, found.numa) == ("", (("X", "PXB"), ("PXB", "X")), (0, 1))


def test_rights_alone_are_no_topology():
    assert "p2p" in read_topology(RIGHTS).error


def test_a_second_machine_with_the_same_links_and_other_network_cards_is_told():
    one = "\tGPU0\tGPU1\t{nic}\nGPU0\t X \tSYS\t{code}\nGPU1\tSYS\t X \tSYS\n{nic}\t{code}\tSYS\t X \n"
    first, second = one.format(nic="mlx5_0", code="PIX"), one.format(nic="mlx5_0", code="PHB")
    assert any("2 different tables" in said for said in read_topology(first + "\n\n" + second).warnings)
    assert read_topology(first + "\n\n" + first).warnings == ()


def test_network_cards_that_the_system_names_have_their_rows_between_tabs():
    text = (
        "\tGPU0\tGPU1\tmlx5_bond_1\tibp7s0\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tNV4\tPXB\tSYS\t0-7\t0\nGPU1\tNV4\t X \tSYS\tPXB\t8-15\t1\n"
        "mlx5_bond_1\tPXB\tSYS\t X \tSYS\t\t\nibp7s0\tSYS\tPXB\tSYS\t X \t\t\n"
    )
    found = read_topology(text)
    assert (found.complete, found.nic_names, found.warnings) == (True, ("mlx5_bond_1", "ibp7s0"), ())


def test_a_bare_block_of_rocm_is_amds():
    block = "=== Link Type between two GPUs ===\n     GPU0 GPU1\nGPU0 0    PCIE\nGPU1 PCIE 0\n"
    assert read_topology(block).vendor == "amd"


def test_a_header_that_the_terminal_broke_within_its_last_title():
    text = (
        "        GPU0    GPU1    mlx5_0  CPU Affinity    NUMA Aff\ninity\n"
        "GPU0     X      NV2     PIX     0-15    0\nGPU1    NV2      X      SYS     16-31   1\n"
        "mlx5_0  PIX     SYS      X\n"
    )
    found = read_topology(text)
    assert (found.nic_names, found.numa, found.complete) == (("mlx5_0",), (0, 1), True)
