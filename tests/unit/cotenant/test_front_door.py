"""What others import: little, lazily, and plug-ins beside what ships."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

import cotenant
from cotenant import plugins
from placement import interference, policies
from placement.model import InvalidSpec, OperationFailed
from simulator import engine


def test_importing_it_imports_the_standard_library_alone():
    code = (
        "import sys; before = set(sys.modules); import cotenant; cotenant.report_progress(1)\n"
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(roots - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cotenant"]


@pytest.mark.parametrize("name", cotenant.__all__)
def test_every_name_is_there(name):
    assert getattr(cotenant, name) is not None
    assert name in dir(cotenant)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="nonsense"):
        cotenant.nonsense  # noqa: B018


def test_simulating_in_one_call():
    first = cotenant.simulate(policy="fifo", cluster="8x8xA100-SXM4-80GB", limit=20)
    assert first.metrics.jobs_completed == 20
    again = cotenant.simulate(policy="fifo", cluster="8x8xA100-SXM4-80GB", limit=20)
    assert first.outcomes == again.outcomes


def test_compiling_is_told_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(engine, "compile_kernels", lambda _placement, tell: tell("compiling"))
    cotenant.simulate(policy="fifo", cluster="8x8xA100-SXM4-80GB", limit=1)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "compiling\n")


class Largest:
    name = "largest"
    strict = False
    preemptive = False
    knows_durations = False

    def rank(self, job, remaining_s):
        return -job.workers * job.request.gpus


@pytest.fixture
def clean(monkeypatch):
    """Registries that forget what a test adds."""
    monkeypatch.setattr(policies, "ORDERS", dict(policies.ORDERS))
    monkeypatch.setattr(policies, "PLACEMENTS", dict(policies.PLACEMENTS))
    models = dict(interference.MODELS)
    monkeypatch.setattr(interference, "MODELS", models)
    monkeypatch.setattr(plugins, "MODELS", models)
    monkeypatch.setattr(plugins, "_loaded", set())
    monkeypatch.setattr(plugins, "refused", [])


def test_a_policy_of_ones_own_decides(clean, tmp_path):
    """While the first job holds both GPUs, a small one and then a large one come in."""
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_s,duration_s,gpus\nfirst,0,100,2\nsmall,10,100,1\nlarge,20,100,2\n")
    cotenant.register_policy("largest", order=Largest)
    placed_s = {}
    for policy in ("backfill", "largest"):
        result = cotenant.simulate(trace, cluster="1x2xA100-SXM4-80GB", policy=policy)
        placed_s[policy] = [outcome.first_placed_s for outcome in result.outcomes]
    assert placed_s == {"backfill": [0, 100, 200], "largest": [0, 200, 100]}


def test_a_name_that_is_taken_is_refused(clean):
    with pytest.raises(InvalidSpec, match="fifo"):
        cotenant.register_policy("fifo", order=Largest)
    with pytest.raises(InvalidSpec, match="additive"):
        cotenant.register_model("additive", interference.NoInterference)


def _offer(monkeypatch, *entries: EntryPoint) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda group: [e for e in entries if e.group == group])


def test_installed_plugins_are_registered_once(clean, monkeypatch):
    _offer(
        monkeypatch,
        EntryPoint("own-order", "placement.policies:Fifo", plugins.ORDERS),
        EntryPoint("own-place", "placement.policies:Spread", plugins.PLACEMENTS),
        EntryPoint("own-model", "placement.interference:NoInterference", plugins.INTERFERENCE_MODELS),
    )
    plugins.load_plugins()
    plugins.load_plugins()
    assert policies.ORDERS["own-order"] is policies.Fifo
    assert policies.PLACEMENTS["own-place"] is policies.Spread
    assert plugins.MODELS["own-model"] is interference.NoInterference


@pytest.mark.parametrize("group", plugins.GROUPS)
@pytest.mark.parametrize(
    "value", ["no_such_module:X", "placement.policies:Nope", "no module at all", "leaving_when_imported:X"]
)
def test_a_broken_plugin_fails_who_asks_for_it_and_nobody_else(clean, monkeypatch, tmp_path, group, value):
    (tmp_path / "leaving_when_imported.py").write_text("raise SystemExit('this is\\na program')")
    monkeypatch.syspath_prepend(tmp_path)
    sound = EntryPoint("sound", "placement.policies:Srtf", plugins.ORDERS)
    _offer(monkeypatch, EntryPoint("bad", value, group), sound)
    plugins.load_plugins()
    ask = interference.model_named if group == plugins.INTERFERENCE_MODELS else policies.policy_named
    reason = rf"plug-in 'bad' \({value}\) cannot be loaded: [A-Za-z]+: .*; mend or uninstall it"
    with pytest.raises(OperationFailed, match=f"^{reason}$"):
        ask("bad")
    assert policies.policy_named("sound").order.name == "srtf"


@pytest.mark.parametrize(
    ("group", "name", "reason"),
    [
        (plugins.ORDERS, "fifo", "policy name 'fifo' is taken"),
        (plugins.PLACEMENTS, "two words+", "policy name 'two words+': must not"),
        (plugins.INTERFERENCE_MODELS, "none", "interference model name 'none' is taken"),
    ],
)
def test_a_plugin_that_cannot_have_its_name_takes_nobody_elses(clean, monkeypatch, group, name, reason):
    _offer(monkeypatch, EntryPoint(name, "placement.policies:Srtf", group))
    plugins.load_plugins()
    assert policies.ORDERS["fifo"] is policies.Fifo
    assert interference.MODELS["none"] is interference.NoInterference
    ((_group, entry, why),) = plugins.refused
    assert entry.name == name
    assert why.startswith(f"plug-in {name!r} (placement.policies:Srtf): {reason}")


@pytest.mark.parametrize("ask", [policies.policy_named, interference.model_named])
def test_what_fails_when_it_is_made_is_one_line(clean, ask):
    def build():
        raise RuntimeError("no licence")

    cotenant.register_policy("bad", placement=build)
    cotenant.register_model("bad", build)
    with pytest.raises(InvalidSpec, match="'bad' cannot be made: RuntimeError: no licence"):
        ask("bad")


def test_the_example_compares_policies(capsys, monkeypatch):
    import runpy
    from pathlib import Path

    example = Path(__file__).parents[3] / "examples" / "small-first" / "small_first.py"
    monkeypatch.setattr(policies, "ORDERS", dict(policies.ORDERS))
    policies.register("small-first", order=Largest)  # the plug-in of that name is installed as well
    runpy.run_path(str(example), run_name="__main__")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "fifo",
        "backfill",
        "mine",
    ]
