"""`./dev up --extender`: the simulated scheduler is told of the extender that is started."""

from apps.simulator.controllers.scheduler.configuration import read_scheduler_settings
from console.up import Console, read_options


def test_the_simulated_scheduler_is_told_where_the_extender_will_listen(tmp_path):
    console = Console(read_options(["--extender", "--data", str(tmp_path)]))
    console.environment = {"EXTENDER_URL": "http://127.0.0.1:8890"}
    (extender,) = read_scheduler_settings(str(console._write_scheduler_config())).extenders
    assert (extender.url_prefix, extender.is_ignorable) == ("http://127.0.0.1:8890", True)
    assert (extender.filter_verb, extender.prioritize_verb, extender.bind_verb) == (
        "filter",
        "prioritize",
        "",
    )
    assert not read_options(["--data", str(tmp_path)]).extender
