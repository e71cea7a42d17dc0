"""What a line of each format means, as tables: lines of a file -> rows."""

import dataclasses
import gzip
from pathlib import Path

import pytest

from placement.model import Devices, InvalidInput, JobKind, Level, Mode, Together
from simulator.traces import ReadOptions, Trace, read_trace
from simulator.traces.own import OWN as OWN_FORMAT
from simulator.traces.reading import read_as

OPENB_SHORT = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
OPENB = OPENB_SHORT.strip() + ",gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
OWN = "job_id,submit_s,duration_s,gpus\n"
OWN_FULL = OWN.strip() + ",tenant,workers,compute_milli,memory_bytes,gpu_model,max_slowdown,kind,profile\n"
RATES = """source,gpu,consolidated,job_type,scale_factor,steps_per_s
simulation,v100,1,LM (batch size 5),1,4.0
simulation,k80,1,LM (batch size 5),1,0.5
simulation,k80,1,LM (batch size 5),2,0.0
simulation,v100,1,LM (batch size 5),2,8.0
simulation,v100,0,LM (batch size 5),2,1.0
physical,v100,1,LM (batch size 5),1,100.0
"""
MODES = frozenset({Mode.EXCLUSIVE, Mode.TIMESLICE})


def read(folder: Path, text: str, limit: int | None = None, **options: str) -> Trace:
    path = folder / "trace"
    path.write_text(text)
    return read_trace(path, ReadOptions(limit=limit, options=options))


@pytest.mark.parametrize(
    ("gpus", "workers", "per_worker"),
    [(0, 1, 0), (1, 1, 1), (8, 1, 8), (9, 2, 8), (16, 2, 8), (17, 3, 8), (128, 16, 8)],
)
def test_more_than_eight_gpus_become_workers_of_eight(tmp_path, gpus, workers, per_worker):
    philly = read(tmp_path, PHILLY + f"2017-10-09 06:13:03,10.0,{gpus},10.0,vc1\n").rows[0]
    tiresias = read(tmp_path, TIRESIAS + f"a,{gpus},0,1,vgg,10,5\n").rows[0]
    own = read(tmp_path, OWN + f"a,0,10,{gpus}\n").rows[0]
    for row in (philly, tiresias, own):
        assert (row.workers, row.request.gpus) == (workers, per_worker)
        assert row.request.modes == {Mode.EXCLUSIVE}


def test_philly_times_count_from_the_first_submission_and_rows_are_sorted(tmp_path):
    trace = read(
        tmp_path,
        PHILLY + "2017-10-09 06:13:03,2951.0,1,2951.0,6214e9\n2017-10-09 06:12:00,7.0,8,56.0,6c71a0\n",
    )
    assert trace.format == "philly"
    assert [(r.job_id, r.submit_s, r.duration_s, r.tenant) for r in trace.rows] == [
        ("philly-000003", 0.0, 7.0, "6c71a0"),
        ("philly-000002", 63.0, 2951.0, "6214e9"),
    ]


def test_equal_submission_times_keep_the_order_of_the_file(tmp_path):
    trace = read(tmp_path, OWN + "b,5,1,1\na,5,1,1\nc,4,1,1\n")
    assert [row.job_id for row in trace.rows] == ["c", "b", "a"]


def test_limit_takes_the_first_by_submission_not_by_line(tmp_path):
    trace = read(tmp_path, OWN + "late,9,1,1\nearly,1,1,1\n", limit=1)
    assert [row.job_id for row in trace.rows] == ["early"]


def test_openb_pods_are_decided_once_and_never_leave(tmp_path):
    trace = read(
        tmp_path,
        OPENB
        + "p0,12000,16384,1,460,V100M16|V100M32|V100M16,LS,Running,7,99,8\n"
        + "p1,20000,65536,0,0,,LS,Running,9,99,9\n"
        + "p2,1000,1,8,1000,,LS,Running,9,99,9\n",
    )
    share, cpu_only, whole = trace.rows
    assert trace.format == "openb"
    assert (share.submit_s, share.duration_s, share.immediate) == (7.0, None, True)
    assert share.request.compute_milli == 460
    assert share.request.gpu_models == ("V100M16", "V100M32")
    assert share.request.memory_bytes is None
    assert (share.request.cpu_milli, share.request.ram_bytes) == (12000, 16384 << 20)
    assert share.request.modes == MODES
    assert (cpu_only.request.gpus, cpu_only.request.compute_milli, cpu_only.workers) == (0, None, 1)
    assert (whole.request.gpus, whole.request.compute_milli) == (8, 1000)


@pytest.mark.parametrize(
    ("created", "deleted", "scheduled", "duration_s"),
    [("7", "99", "9", 90.0), ("7", "99", "", 92.0), ("7", "", "9", None)],
)
def test_openb_departures_use_the_times(tmp_path, created, deleted, scheduled, duration_s):
    line = f"p0,1,1,1,1000,,LS,Running,{created},{deleted},{scheduled}\n"
    row = read(tmp_path, OPENB + line, departures="true").rows[0]
    assert (row.submit_s, row.duration_s, row.immediate) == (7.0, duration_s, False)


def test_openb_lists_without_times_are_decided_in_the_order_of_their_lines(tmp_path):
    trace = read(tmp_path, OPENB_SHORT + "z,1,1,1,1000\na,1,1,1,1000\n")
    assert [row.job_id for row in trace.rows] == ["z", "a"]
    assert trace.rows[0].submit_s < trace.rows[1].submit_s


TEN = 'LM (batch size 5)\tpython3 main.py "x\t/dir\t--steps\t1\t{steps}\t{scale}\t1\t-1.000000\t{at}\n'
SEVEN = "LM (batch size 5)\tpython3 main.py\t--steps\t1\t{steps}\t{at}\t{scale}\n"


@pytest.mark.parametrize("line", [TEN, SEVEN], ids=["physical-10-fields", "philly-7-fields"])
def test_gavel_lengths_are_steps_over_the_rate_of_the_gpu_model(tmp_path, line):
    (tmp_path / "isolated_throughputs.csv").write_text(RATES)
    text = line.format(steps=100, at="6.5", scale=1) + line.format(steps=100, at="8", scale=2)
    one, two = read(tmp_path, text).rows
    assert (one.submit_s, one.workers, one.request.gpus) == (6.5, 1, 1)
    assert one.duration_by_model_s == {"v100": 25.0, "k80": 200.0}
    assert one.duration_s == 25.0
    assert (two.workers, two.request.gpus) == (2, 1)
    assert two.duration_by_model_s == {"v100": 12.5}, "a rate of 0 means that it does not fit"
    assert two.request.gpu_models == ("v100",)


def test_gavel_rates_of_the_data_folder_that_is_named(tmp_path, monkeypatch):
    """What lies in the environment is the command line's to read, and changes no library call."""
    folder = tmp_path / "data" / "gavel"
    folder.mkdir(parents=True)
    (folder / "isolated_throughputs.csv").write_text(RATES)
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "t"
    path.write_text(SEVEN.format(steps=100, at=0, scale=1))
    monkeypatch.setenv("COTENANT_DATA", str(tmp_path / "data"))
    with pytest.raises(InvalidInput, match="needs measured rates"):
        read_trace(path, ReadOptions())
    (row,) = read_trace(path, ReadOptions(data_folder=tmp_path / "data")).rows
    assert row.duration_s == 25.0


def test_gavel_jobs_without_a_rate_are_kept_to_be_rejected_and_counted(tmp_path):
    rates = tmp_path / "elsewhere.csv"
    rates.write_text(RATES)
    trace = read(tmp_path, SEVEN.format(steps=1, at=0, scale=4), throughputs=str(rates))
    assert trace.rows[0].duration_by_model_s == {}
    assert trace.notices[0].endswith("rejected for want of a measured rate: 1 of 1 jobs")


def test_gavel_rates_of_the_other_measurement(tmp_path):
    (tmp_path / "isolated_throughputs.csv").write_text(RATES)
    row = read(tmp_path, SEVEN.format(steps=100, at=0, scale=1), throughputs_source="physical").rows[0]
    assert row.duration_by_model_s == {"v100": 1.0}


def test_own_csv_with_every_column(tmp_path):
    trace = read(
        tmp_path,
        OWN_FULL + "a,1.5,10,2,vision,3,,,A100|H100,,inference,bert\n" + "b,2,,1,,,300,10Gi,,1.2,,\n",
    )
    gang, share = trace.rows
    assert (gang.tenant, gang.workers, gang.request.gpus, gang.kind) == ("vision", 3, 2, JobKind.INFERENCE)
    assert (gang.request.gpu_models, gang.profile) == (("A100", "H100"), "bert")
    assert gang.request.modes == {Mode.EXCLUSIVE}
    assert (share.tenant, share.workers, share.duration_s, share.profile) == ("default", 1, None, None)
    assert (share.request.compute_milli, share.request.memory_bytes) == (300, 10 << 30)
    assert share.request.max_slowdown == 1.2
    assert share.request.modes == frozenset(Mode)


def test_own_columns_of_devices_and_topology(tmp_path):
    head = "job_id,submit_s,duration_s,gpus,workers,compute_milli,devices,together\n"
    rows = read(
        tmp_path, head + "a,0,1,2,1,300,same,\nb,0,1,8,4,,,rack|required\nc,0,1,8,4,,,gpu-type\n"
    ).rows
    assert [row.request.devices for row in rows] == [Devices.SAME, Devices.DISTINCT, Devices.DISTINCT]
    assert [row.request.together for row in rows] == [
        None,
        Together(Level.RACK, required=True),
        Together(Level.GPU_TYPE),
    ]


def test_unknown_columns_are_ignored_with_one_notice(tmp_path):
    trace = read(tmp_path, "job_id,colour,submit_s,duration_s,gpus,mood\na,red,0,1,1,x\nb,red,0,1,1,x\n")
    assert len(trace.rows) == 2
    assert len(trace.notices) == 1
    assert "colour, mood" in trace.notices[0]


@pytest.mark.parametrize("name", ["trace.csv.gz", "trace.csv"])
def test_gzip_is_recognised_by_content_not_by_name(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress((OWN + "a,0,1,1\n").encode()))
    assert read_trace(path, ReadOptions()).format == "cotenant"


@pytest.mark.parametrize(
    "text", [OWN.replace("\n", "\r\n") + "a,0,1,1\r\n", "\ufeff" + OWN + "a,0,1,1", OWN + "\na,0,1,1\n\n"]
)
def test_line_ends_byte_order_marks_and_blank_lines_do_not_matter(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_bytes(text.encode())
    assert [row.job_id for row in read_trace(path, ReadOptions()).rows] == ["a"]


@pytest.mark.parametrize("delimiter", [";", "|"])
def test_a_format_says_what_stands_between_its_fields(tmp_path, delimiter):
    path = tmp_path / "trace"
    path.write_text(OWN.replace(",", delimiter) + f'"a"{delimiter}0{delimiter}10{delimiter}2\n')
    chosen = dataclasses.replace(OWN_FORMAT, delimiter=delimiter)
    (row,) = read_as(chosen, path, ReadOptions()).rows
    assert (row.job_id, row.duration_s, row.request.gpus) == ("a", 10, 2)
