"""nvidia-smi's table and what people, consoles and other makers do to it."""

import pytest

from apps.kube.topology.documents import read_topology
from tests.kube.topology.texts import LEGEND, hives, links, table

CPU = ["0-15,32-47", "0-15,32-47", "16-31,48-63", "16-31,48-63"]
NUMA = ["0", "0", "1", "1"]
NIC_CODES = [["PIX", "SYS"], ["PXB", "SYS"], ["SYS", "PXB"], ["SYS", "PIX"]]
WHOLE = table(
    links(4), nics=["NIC0", "NIC1"], nic_codes=NIC_CODES, cpu=CPU, numa=NUMA, own=["N/A"] * 4
)  # fmt: skip
FULL = tuple(map(tuple, links(4)))


def test_a_whole_table_is_read_with_its_nics_and_affinities():
    found = read_topology(WHOLE + LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_4\n  NIC1: mlx5_9\n")
    assert (found.vendor, found.gpus, found.links, found.complete) == ("nvidia", 4, FULL, True)
    assert (found.numa, found.cpu_affinity) == ((0, 0, 1, 1), tuple(CPU))
    assert found.gpu_numa_id == (None,) * 4
    assert (found.nics, found.nic_names) == (2, ("mlx5_4", "mlx5_9"))
    assert found.nic_links == tuple(map(tuple, NIC_CODES))
    assert found.warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "root@lab7:~# nvidia-smi topo -m\n" + WHOLE,
        "".join(f"    {line}\n" for line in WHOLE.splitlines()),
        "".join(f"# {line}\n" for line in WHOLE.splitlines()),
        "".join(f"#{line}\n" for line in WHOLE.splitlines()),
        "".join(f"> {line}\n" for line in WHOLE.splitlines()),
        "".join(f"2026-03-04T05:06:07Z INFO {line}\n" for line in WHOLE.splitlines()),
        "".join(f"[1,3]<stdout>:{line}\n" for line in WHOLE.splitlines()),
        "\x1b[4m" + WHOLE.replace("\n", "\x1b[0m\n", 1),
        WHOLE.replace("\n", "\r\n"),
        "\ufeff" + WHOLE,
        WHOLE.rstrip("\n") + "\nGPU driver says nothing more\n",
        WHOLE.replace("        GPU0", "GPU0", 1),
        WHOLE.replace(" X  ", " x  "),
    ],
    ids=["prompt", "indent", "comment", "comment touching", "quoted", "log", "mpirun", "ansi", "crlf", "bom",
         "more text", "header without indent", "lower-case x"],
)  # fmt: skip
def test_what_stands_around_the_table_changes_nothing(text):
    found = read_topology(text)
    assert (found.gpus, found.links, found.numa, found.nics) == (4, FULL, (0, 0, 1, 1), 2)
    assert found.cpu_affinity == tuple(CPU)
    assert found.complete


def test_only_tabs_show_that_a_cell_is_empty():
    found = read_topology("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\tN/A\n")
    assert (found.cpu_affinity, found.numa, found.gpu_numa_id) == ((None,), (None,), (None,))
    assert found.complete


def test_a_table_without_affinities_has_unknown_ones():
    found = read_topology(table(hives(2, 2)))
    assert (found.numa, found.cpu_affinity, found.gpu_numa_id) == (None, None, None)
    assert found.links == tuple(map(tuple, hives(2, 2)))
    assert found.complete


def test_old_words_are_kept_as_they_are():
    found = read_topology(table(hives(2, 1, between="SOC"), cpu=["0-3", "0-3", "4-7"]))
    assert found.links[0] == ("X", "NV4", "SOC")


@pytest.mark.parametrize(
    ("cells", "own", "nodes", "ids"),
    [
        (["0,3-9", "1,11-17"], ["3", "11"], (0, 1), (3, 11)),
        (["0-3", "2"], ["N/A", "N/A"], (None, 2), (None, None)),
        (["0,1", "0,1"], ["N/A", "N/A"], (None, None), (None, None)),
        (["N/A", "5"], ["N/A", "N/A"], (None, 5), (None, None)),
        (["-1", "0"], ["N/A", "N/A"], (None, 0), (None, None)),
    ],
    ids=["with nodes of GPU memory", "a range names none", "two nodes", "untold", "minus one"],
)  # fmt: skip
def test_a_list_of_numa_nodes_is_one_node_only_where_the_others_are_memory(cells, own, nodes, ids):
    found = read_topology(table(links(2), cpu=["0-7", "8-15"], numa=cells, own=own))
    assert (found.numa, found.gpu_numa_id) == (nodes, ids)
    assert found.complete


def test_interleaved_cpus_are_no_numa_nodes():
    found = read_topology(table(links(2), cpu=["0,2,4,6", "1,3,5,7"], numa=["0", "1"]))
    assert (found.cpu_affinity, found.numa) == (("0,2,4,6", "1,3,5,7"), (0, 1))


def test_the_node_may_stand_before_the_cpus():
    text = table(links(2, "MX"), cpu=["3", "5"], numa=["0-7", "8-15"]).replace(
        "CPU Affinity    NUMA Affinity", "Node Affinity   CPU Affinity"
    )
    found = read_topology("mx-smi topo -m\nAttached GPUs                  : 2\n" + text)
    assert (found.vendor, found.numa, found.cpu_affinity) == ("metax", (3, 5), ("0-7", "8-15"))


def test_cpus_and_node_that_ran_together_are_parted_as_the_other_rows_show():
    cells = ["0-15,32-47", "0-15,32-47", "16-31,48-63", "16-31,48-63"]
    text = table(links(4), cpu=cells, numa=NUMA, own=["N/A"] * 4)
    fused = text.replace("0-15,32-47      0     ", "0-15,32-470           ")
    found = read_topology(fused)
    assert (found.cpu_affinity, found.numa) == (tuple(cells), (0, 0, 1, 1))
    assert any("ran together" in warning for warning in found.warnings)


def test_cpus_and_node_that_ran_together_everywhere_are_unknown():
    text = table(links(2), cpu=["0-150", "16-311"], numa=["", ""], own=["N/A", "N/A"])
    found = read_topology(text)
    assert (found.cpu_affinity, found.numa) == ((None, None), (None, None))
    assert found.warnings


def test_damaged_lists_of_cpus_are_not_used():
    found = read_topology(table(links(2), cpu=["-7,16-23", "8-15,24-31"], numa=["0", "1"]))
    assert (found.cpu_affinity, found.numa, found.complete) == ((None, None), (0, 1), True)
    assert found.cpu_affinity_raw == ("-7,16-23", "8-15,24-31")


def test_columns_that_ran_together_are_parted():
    text = WHOLE.replace("NIC0    NIC1", "NIC0NIC1    ").replace("PIX     SYS", "PIXSYS     ")
    found = read_topology(text)
    assert (found.nics, found.complete, found.links) == (2, True, FULL)
    assert found.nic_links[0] == ("PIX", "SYS")


def test_nics_that_do_not_fit_the_header_leave_the_gpus_alone():
    text = table(links(2), nics=["NIC0", "NIC1"], nic_codes=[["PIX", ""], ["SYS", "PIX"]],
                 cpu=["0-7", "0-7"], numa=["0", "0"], nic_rows=False)  # fmt: skip
    found = read_topology(text)
    assert (found.links, found.numa, found.nics, found.complete) == (
        (("X", "NV6"), ("NV6", "X")),
        (0, 0),
        2,
        True,
    )
    assert found.nic_links == (("", ""), ("SYS", "PIX"))
    assert any("NICs" in warning for warning in found.warnings)


def test_rows_of_nics_that_the_header_does_not_know_are_read_from_the_side():
    text = table(links(2), cpu=["0-7", "0-7"], numa=["0", "0"]) + "NIC0    PIX     SYS\nNIC1    SYS     PIX\n"
    found = read_topology(text)
    assert (found.nics, found.nic_links, found.complete) == (2, (("PIX", "SYS"), ("SYS", "PIX")), True)


def test_names_of_nics_may_be_any_and_disks_are_none():
    text = table(links(2), nics=["rdmap4s27", "NVME0"], nic_codes=[["PIX", "SYS"], ["SYS", "PIX"]], tabs=True,
                 cpu=["0-7", "0-7"], numa=["0", "0"])  # fmt: skip
    found = read_topology(text)
    assert (found.gpus, found.nics, found.nic_names) == (2, 1, ("rdmap4s27",))
    assert found.nic_links == (("PIX",), ("SYS",))


def test_an_unknown_link_name_stays_visible():
    found = read_topology(table(hives(2, 1, inside="WARP9", between="NA"), cpu=["0-3"] * 3))
    assert found.links == (("X", "WARP9", "NA"), ("WARP9", "X", "NA"), ("NA", "NA", "X"))
    assert found.complete


def test_a_missing_row_makes_no_smaller_machine():
    lines = WHOLE.splitlines()
    found = read_topology("\n".join(line for line in lines if not line.startswith("GPU2")))
    assert (found.gpus, found.complete) == (4, False)
    assert found.links[2] == ("", "", "", "")
    assert found.numa == (0, 0, None, 1)
    assert any("GPU2" in warning for warning in found.warnings)


def test_a_header_cut_by_columns_makes_no_smaller_machine():
    found = read_topology("\n".join(line[:21] for line in WHOLE.splitlines()))
    assert (found.gpus, found.complete) == (4, False)
    assert found.links[0] == ("X", "NV6", "", "")


def test_what_the_tool_says_of_the_number_counts():
    found = read_topology("Attached GPUs           : 3\n" + table(links(2, "MX"), cpu=["0", "1"]))
    assert (found.gpus, found.complete, found.links[2]) == (3, False, ("", "", ""))


def test_a_lost_cell_is_unknown_and_never_a_neighbours():
    rows = WHOLE.splitlines()
    rows[1] = rows[1].replace("NV6     NV6     NV6", "NV6             NV6", 1)
    found = read_topology("\n".join(rows))
    assert found.links[0] == ("X", "NV6", "", "NV6")
    assert not found.complete


def test_a_lost_cell_without_columns_to_go_by_is_unknown():
    squeezed = "\n".join(" ".join(line.split()) for line in WHOLE.splitlines())
    rows = squeezed.splitlines()
    rows[3] = rows[3].replace("NV6 ", "", 1)
    found = read_topology("\n".join(rows))
    assert "NV6" not in found.links[2]
    assert found.links[3] == FULL[3]
    assert not found.complete


def test_links_that_differ_by_direction_are_told():
    found = read_topology(WHOLE.replace("GPU3    NV6", "GPU3    NV5"))
    assert (found.links[3][0], found.links[0][3], found.complete) == ("NV5", "NV6", False)
    assert any("differ by direction" in warning for warning in found.warnings)


def test_a_word_that_may_be_cut_is_no_link_unless_its_other_direction_says_so():
    text = table(links(2, "NV12"))
    assert read_topology(text[: text.index("NV12") + 3]).links is None or not any(
        code == "NV1" for row in read_topology(text[: text.index("NV12") + 3]).links for code in row
    )
    pair = "\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV1\t X \n"
    assert read_topology(pair).links == (("X", "NV1"), ("NV1", "X"))


def test_two_tables_in_one_text_are_not_mixed():
    other = table(links(2, "PHB"), cpu=["0-7", "0-7"], numa=["0", "0"])
    found = read_topology(WHOLE + "\nother host:\n" + other)
    assert (found.gpus, found.links) == (4, FULL)
    assert any("2 different tables" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "driver not"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "different versions"),
        ("bash: nvidia-smi: command not found\n", "not installed"),
        ("No devices were found\n", "no devices"),
        ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", "p2p capability"),
        ("", "no topology"),
        ("GPU", "no topology"),
        ("\x00\x01\x02" * 40, "no topology"),
        ("a,b,c\n1,2,3\n", "no topology"),
        ("{", "JSON"),
        ("        GPU0    GPU1", "no row"),
    ],
)  # fmt: skip
def test_what_is_no_topology_is_an_error_and_no_machine_without_gpus(text, error):
    found = read_topology(text)
    assert error in found.error
    assert (found.links, found.complete) == (None, False)
    assert found.gpus in (None, 2)


def test_npus_with_a_fabric_of_their_own():
    found = read_topology(
        "$ npu-smi info -t topo\n" + table(links(2, "HCCS"), cpu=["24-47", "0-23"], word="NPU")
    )
    assert (found.vendor, found.gpus, found.numa) == ("ascend", 2, None)
    assert (found.links[0], found.cpu_affinity) == (("X", "HCCS"), ("24-47", "0-23"))


def test_dies_by_their_physical_numbers():
    found = read_topology(
        "           Phy-ID4    Phy-ID5\nPhy-ID4    X          SIO\nPhy-ID5    SIO        X\n"
    )
    assert (found.vendor, found.gpus, found.names) == ("ascend", 2, ("Phy-ID4", "Phy-ID5"))
    assert found.complete


@pytest.mark.parametrize(
    ("word", "code", "tool", "vendor"),
    [("MLU", "MLK", "cnmon topo -m", "cambricon"), ("GPU", "MT2", "mthreads-gmi topo -m", "mthreads"),
     ("GPU", "PIX", "ixsmi topo -m", "iluvatar"), ("HCU", "XGMI", "hy-smi", "hygon")],
)  # fmt: skip
def test_tables_of_other_makers(word, code, tool, vendor):
    found = read_topology(f"$ {tool}\n" + table(links(2, code), cpu=["0-3", "4-7"], word=word))
    assert (found.vendor, found.links) == (vendor, (("X", code), (code, "X")))


def test_a_table_parted_by_commas():
    found = read_topology(",GPU0,GPU1\nGPU0,X,NV2\nGPU1,NV2,X\n")
    assert found.links == (("X", "NV2"), ("NV2", "X"))


def test_a_table_that_a_console_broke_in_two_gives_no_wrong_link():
    codes = hives(8, 8, inside="NV2", between="SYS")
    broken = "".join(f"{line[:88]}\n{line[88:]}\n" for line in table(codes, cpu=["0-7"] * 16).splitlines())
    found = read_topology(broken)
    assert not found.complete
    for a, row in enumerate(found.links or ()):
        name = int(found.names[a].removeprefix("GPU"))
        for b, cell in enumerate(row):
            other = int(found.names[b].removeprefix("GPU"))
            assert cell in ("", codes[name][other])


def test_tiles_with_a_blank_in_their_names():
    text = """
         GPU 0/0  GPU 0/1  GPU 1/0  CPU Affinity
GPU 0/0  S        MDF      XL16     0-23,48-71
GPU 0/1  MDF      S        XL*      0-23,48-71
GPU 1/0  XL16     XL*      S        24-47,72-95
"""
    found = read_topology("$ xpu-smi topology -m" + text)
    assert (found.vendor, found.names) == ("intel", ("GPU0/0", "GPU0/1", "GPU1/0"))
    assert found.links == (("X", "MDF", "XL16"), ("MDF", "X", "XL*"), ("XL16", "XL*", "X"))
    assert found.complete


def test_a_report_of_a_whole_environment_is_searched_for_its_table():
    report = (
        "GPU models and configuration:\nGPU 0: NVIDIA L40S\nGPU 1: NVIDIA L40S\n\nModel name: Hygon C86\n"
        "Build flags: CUDA Archs: Not Set; ROCm: Disabled\nNUMA node0 CPU(s): 0-15\nGPU Topology:\n"
    )
    text = table(links(2, "SYS"), cpu=["0-15", "16-31"], numa=["0", "1"], own=["N/A"] * 2, tabs=True)
    found = read_topology(report + text.lstrip("\t") + LEGEND + "\nLD_LIBRARY_PATH=/opt/lib\n")
    assert (found.vendor, found.gpus, found.numa, found.complete) == ("nvidia", 2, (0, 1), True)
    assert found.links == (("X", "SYS"), ("SYS", "X"))


def test_rows_without_their_header_tell_the_number_where_cells_and_rows_agree():
    rows = WHOLE.splitlines()[1:]
    found = read_topology("\n".join(rows))
    assert (found.gpus, found.links, found.complete, found.error) == (4, None, False, "")
    found = read_topology("\n".join(row for row in rows if row[:4] in ("GPU1", "GPU2")))
    assert "number of GPUs is not certain" in found.error
