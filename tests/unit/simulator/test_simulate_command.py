"""`cotenant simulate` and `cotenant trace generate`, as a user sees them."""

import json
import re
from pathlib import Path

import pytest

from cli.main import main
from placement import policies
from placement.engine import compile_kernels
from placement.interference import MODELS
from simulator import engine
from simulator.traces import FORMATS

EXAMPLES = Path(__file__).parents[3] / "examples"
OWN = "job_id,submit_s,duration_s,gpus,profile\na,0,10,1,\nb,0,20,2,\nc,1,5,1,\n"
CLUSTER = ("--cluster", "1x2xT4-16GB")
METRICS = [
    *("jobs_total", "jobs_completed", "jobs_rejected", "avg_jct_s", "p50_jct_s", "p99_jct_s"),
    *("avg_wait_s", "p50_wait_s", "p99_wait_s", "makespan_s", "gpu_allocation_ratio"),
    *("gpu_utilisation_ratio", "mean_slowdown", "p99_slowdown", "preemptions", "moves", "promises_broken"),
    *("events", "decisions", "load_s", "wall_s", "decisions_per_s"),
]

WALL = ("load_s", "compile_s", "wall_s", "decisions_per_s")


@pytest.fixture(autouse=True)
def nothing_told_of_compiling(monkeypatch):
    """What goes to stderr does not depend on what the compiler's cache holds."""
    monkeypatch.setattr(engine, "compile_kernels", lambda placement, _tell: compile_kernels(placement))


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(OWN)
    return str(path)


def test_json_has_the_promised_keys_and_nothing_else_goes_to_stdout(trace, capsys):
    assert main(["simulate", trace, *CLUSTER, "--policy", "fifo,srtf", "--seed", "9", "-o", "json"]) == 0
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert list(document) == ["trace", "cluster", "runs"]
    assert [(run["policy"], run["seed"]) for run in document["runs"]] == [("fifo", 9), ("srtf", 9)]
    assert all(list(run["metrics"]) == METRICS for run in document["runs"])
    assert document["runs"][0]["metrics"]["avg_jct_s"] == (10 + 30 + 34) / 3
    assert printed.err == "", "no progress bar where there is no terminal"


@pytest.mark.parametrize("named", ["option", "environment"])
def test_rates_of_the_data_folder(tmp_path, monkeypatch, capsys, named):
    folder = tmp_path / "data" / "gavel"
    folder.mkdir(parents=True)
    header = "source,gpu,consolidated,job_type,scale_factor,steps_per_s\n"
    (folder / "isolated_throughputs.csv").write_text(header + "simulation,v100,1,LM (batch size 5),1,4.0\n")
    path = tmp_path / "there" / "jobs.trace"
    path.parent.mkdir()
    path.write_text("LM (batch size 5)\tpython3 main.py\t--steps\t1\t100\t0\t1\n")
    words = ["simulate", str(path), "--cluster", "1x1xv100", "--policy", "fifo", "-o", "json"]
    monkeypatch.delenv("COTENANT_DATA", raising=False)
    assert main(words) == 2
    assert "needs measured rates" in capsys.readouterr().err
    if named == "environment":
        monkeypatch.setenv("COTENANT_DATA", str(tmp_path / "data"))
    else:
        words += ["--data", str(tmp_path / "data")]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["metrics"]["avg_jct_s"] == 25.0


def test_undefined_figures_are_null(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text("job_id,submit_s,duration_s,gpus\na,0,1,8\n")
    assert main(["simulate", str(path), *CLUSTER, "-o", "json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["runs"][0]["metrics"]
    assert metrics["jobs_rejected"] == 1
    assert [metrics[name] for name in ("avg_jct_s", "p99_wait_s", "makespan_s", "mean_slowdown")] == [
        None
    ] * 4


def test_two_runs_print_the_same_bytes_but_for_wall_times(trace, capsys):
    def printed() -> str:
        assert main(["simulate", trace, *CLUSTER, "--policy", "fifo,random", "-o", "json"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return "\n".join(line for line in lines if not any(name in line for name in WALL))

    assert printed() == printed()


def test_the_default_trace_needs_no_argument_at_all(capsys):
    assert main(["simulate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "the trace that ships (cotenant), 1000 jobs, on 8x8xA100-SXM4-80GB: 8 nodes, 64 GPUs; seed 0"
    )
    assert lines[2].split() == ["METRIC", "COTENANT"]
    assert [line.split()[0] for line in lines[3:]] == [*METRICS, "compile_s"]


def test_the_table_names_trace_and_cluster(trace, capsys):
    assert main(["simulate", trace, *CLUSTER, "--seed", "3"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{trace} (cotenant), 3 jobs, on 1x2xT4-16GB: 1 node, 2 GPUs; seed 3"


def test_skipped_lines_are_counted_and_named_on_stderr(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(OWN + "d,-1,1,1,\n")
    assert main(["simulate", str(path), *CLUSTER, "--skip-bad-lines", "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["trace"]["bad_lines"] == 1
    assert f"skipped: {path}:5: submit_s: '-1' must be at least 0" in printed.err


def test_an_undefined_profile_is_told(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(OWN + "d,1,1,1,nobody\n")
    assert main(["simulate", str(path), *CLUSTER, "-o", "json"]) == 0
    told = "not in profiles.yaml, so that slowdowns next to them are unknown: profile nobody"
    assert told in capsys.readouterr().err


SM = "sm_milli: 450\n"
PROFILES = {  # files -> the profiles that are found
    "one, named": ({"a.yaml": "name: wanted\n" + SM}, "a.yaml", True),
    "one, named after its file": ({"wanted.yaml": SM}, "wanted.yaml", True),
    "one with another name": ({"wanted.yaml": "name: other\n" + SM}, "wanted.yaml", False),
    "many in one file": ({"all.yaml": "profiles: {other: {}, wanted: {sm_milli: 450}}\n"}, "all.yaml", True),
    "a folder": ({"a.yaml": "name: wanted\n" + SM, "b.yml": SM, "README": "no profile"}, ".", True),
}


@pytest.mark.parametrize(("files", "named", "found"), PROFILES.values(), ids=PROFILES)
def test_profiles_may_be_written_in_each_way(tmp_path, capsys, files, named, found):
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    path = tmp_path / "trace.csv"
    path.write_text(OWN + "d,1,1,1,wanted\n")
    words = ["--option", f"profiles={folder / named}", "-o", "json"]
    assert main(["simulate", str(path), *CLUSTER, *words]) == 0
    assert ("unknown" not in capsys.readouterr().err) == found


def test_the_profiles_that_ship_as_examples_can_be_simulated(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(OWN + "d,1,1,1,resnet50\ne,1,1,1,dlrm\n")
    words = ["--option", f"profiles={EXAMPLES / 'profiles'}", "-o", "json"]
    assert main(["simulate", str(path), *CLUSTER, *words]) == 0
    assert capsys.readouterr().err == ""


def test_the_help_names_what_can_be_chosen(capsys):
    assert main(["simulate", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for names in (policies.ORDERS, policies.PLACEMENTS, MODELS, [form.name for form in FORMATS]):
        assert ", ".join(names) in said
    assert "A100-SXM4-80GB" in said


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--cluster", ""], "cluster '': is empty; write NODESxGPUSxMODEL"),
        (["--cluster", "."], "cluster '.': is a folder; write NODESxGPUSxMODEL"),
        (["--cluster", "2x2xT5"], "GPU model 'T5' is unknown"),
        (["--cluster", "cluster.yaml"], "is no file and no short form"),
        ([], "cluster: is needed with a trace of your own"),
        ([*CLUSTER, "--policy", "fifo,hope"], "policy 'hope' is unknown"),
        ([*CLUSTER, "--policy", "fifo,"], "empty name"),
        ([*CLUSTER, "--truth", "fair"], "interference model 'fair' is unknown"),
        ([*CLUSTER, "--belief", "fair"], "interference model 'fair' is unknown"),
        ([*CLUSTER, "--format", "swf"], "trace format 'swf' is unknown"),
        ([*CLUSTER, "--limit", "0"], "--limit"),
        ([*CLUSTER, "--seed", "-1"], "--seed"),
        ([*CLUSTER, "--option", "fast"], "must be written KEY=VALUE"),
        ([*CLUSTER, "--option", "a=1", "--option", "a=2"], "given twice"),
        ([*CLUSTER, "--option", "colour=red"], "option 'colour' does not fit a cotenant trace"),
        ([*CLUSTER, "--option", "known_durations=perhaps"], "must be true or false"),
        ([*CLUSTER, "--option", "profiles=/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
        ([*CLUSTER, "-o", "xml"], "--output"),
        ([*CLUSTER, "--colour"], "--colour"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_2(trace, words, what, capsys):
    assert main(["simulate", trace, *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert what in printed.err
    assert printed.err.count("\n") == 1


def test_a_broken_line_is_file_line_and_exit_status_2(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(OWN + "d,-1,1,1,\n")
    assert main(["simulate", str(path), *CLUSTER]) == 2
    assert f"{path}:5: submit_s: '-1' must be at least 0" in capsys.readouterr().err


def test_requests_that_nothing_could_hold_are_rejected_jobs_not_errors(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    path.write_text(
        "job_id,submit_s,duration_s,gpus,workers,memory_bytes,gpu_model\n"
        "model,0,1,1,1,,H900\nmemory,0,1,1,1,900Gi,\ngang,0,1,1,9,,\nfits,0,1,1,1,,\n"
    )
    assert main(["simulate", str(path), *CLUSTER, "-o", "json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["runs"][0]["metrics"]
    assert (metrics["jobs_rejected"], metrics["jobs_completed"]) == (3, 1)


def test_rejected_jobs_are_counted_by_reason_on_stderr(tmp_path, capsys):
    path = tmp_path / "trace.csv"
    rows = [f"wide-{n},{n},1,3,1,," for n in range(10)] + ["gang,0,1,1,9,,", "model,0,1,1,1,,H900"]
    path.write_text("job_id,submit_s,duration_s,gpus,workers,memory_bytes,gpu_model\n" + "\n".join(rows))
    assert main(["simulate", str(path), *CLUSTER, "--policy", "fifo,srtf", "-o", "json"]) == 0
    never = "rejected: larger than the cluster could ever hold:"
    assert capsys.readouterr().err.splitlines() == [
        f"note: 10 jobs {never} not enough suitable GPUs on the node",
        f"note: 1 job {never} not enough room for all workers at once",
        f"note: 1 job {never} other GPU model",
    ]


def test_policies_given_one_by_one_run_each_once(trace, capsys):
    words = ["--policy", "fifo", "--policy", "srtf,fifo", "-o", "json"]
    assert main(["simulate", trace, *CLUSTER, *words]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["policy"] for run in runs] == ["fifo", "srtf"]


def test_a_policy_that_is_given_twice_is_told(trace, capsys):
    assert main(["simulate", trace, *CLUSTER, "--policy", "fifo,fifo", "-o", "json"]) == 0
    assert capsys.readouterr().err == "note: policy 'fifo' is given more than once; it runs once\n"


def test_tenants_with_cells_but_no_job_are_told(trace, capsys):
    assert main(["simulate", trace, *CLUSTER, "--policy", "hived:nobody=1x2xT4-16GB", "-o", "json"]) == 0
    assert "the trace has no job of tenant nobody" in capsys.readouterr().err


def test_cells_that_do_not_fit_name_the_policy(trace, capsys):
    assert main(["simulate", trace, *CLUSTER, "--policy", "hived:a=9x2xT4-16GB"]) == 2
    told = "policy hived: its tenants are promised 8 cells of 2xT4-16GB more than this cluster has room for"
    assert told in capsys.readouterr().err


def test_a_narrow_terminal_gets_several_blocks_and_nothing_is_cut(trace, capsys, monkeypatch):
    policies = [
        "fifo",
        "backfill",
        "srtf",
        "hived:default=1x2xT4-16GB",
        "hived:default=2x1xT4-16GB",
        "spread",
    ]
    monkeypatch.setattr("cli.simulate._terminal_width", lambda: 60)
    assert main(["simulate", trace, *CLUSTER, "--policy", ",".join(policies)]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    heads = [line.split(maxsplit=1)[1] for line in lines if line.startswith("METRIC")]
    assert len(heads) > 1
    assert " ".join(" ".join(heads).split()) == "FIFO BACKFILL SRTF HIVED #1 HIVED #2 SPREAD"
    assert max(len(line) for line in lines if not line.startswith("HIVED")) <= 60
    assert lines[-1] == "HIVED #2: hived:default=2x1xT4-16GB"
    jct = [word for line in lines if line.startswith("avg_jct_s") for word in line.split()[1:]]
    assert len(jct) == 6
    assert all(re.fullmatch(r"[0-9]+\.[0-9]", text) for text in jct)


def test_compiling_is_told_before_it_begins(trace, capsys, monkeypatch):
    monkeypatch.setattr(
        engine, "compile_kernels", lambda placement, tell: tell(f"compiling {placement.name}")
    )
    policies = "fifo+spread,backfill+fgd"
    assert main(["simulate", trace, *CLUSTER, "--policy", policies, "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "compiling spread\ncompiling fgd\n"
    assert json.loads(printed.out)["runs"][0]["compile_s"] > 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["nowhere.csv"], "nowhere.csv: cannot be read: No such file"),
        (["nowhere.csv", "--format", "philly"], "nowhere.csv: cannot be read: No such file"),
        (["nowhere.csv", "--format", "swf"], "trace format 'swf' is unknown"),
        (["nowhere.csv", "--policy", "hope"], "policy 'hope' is unknown"),
    ],
)
def test_what_is_wrong_is_said_before_what_is_missing(words, what, capsys):
    assert main(["simulate", *words]) == 2
    printed = capsys.readouterr()
    assert what in printed.err
    assert "cluster:" not in printed.err


def test_generate_then_simulate(tmp_path, capsys):
    path = str(tmp_path / "made.csv.gz")
    assert main(["trace", "generate", path, "--jobs", "50", "--seed", "4", "--arrivals", "diurnal"]) == 0
    assert main(["simulate", path, "--cluster", "4x8xA100-SXM4-80GB", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["metrics"]["jobs_completed"] == 50


@pytest.mark.parametrize(
    ("words", "status"),
    [(["--jobs", "0"], 2), (["--gangs", "1.5"], 2), (["--median", "nan"], 2), (["--arrivals", "never"], 2)],
)
def test_generate_refuses_what_cannot_be_right(tmp_path, words, status, capsys):
    path = tmp_path / "t.csv"
    assert main(["trace", "generate", str(path), *words]) == status
    assert capsys.readouterr().err.count("\n") == 1
    assert not path.exists()
