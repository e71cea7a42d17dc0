"""Broken traces: FILE:LINE and what is wrong there, or a count of skipped lines."""

import gzip
from pathlib import Path

import pytest

from placement.model import BrokenTrace, InvalidInput, UnknownName
from simulator.traces import FORMATS, ReadOptions, read_trace

OWN = "job_id,submit_s,duration_s,gpus,workers,compute_milli,memory_bytes,max_slowdown,kind\n"
TOPOLOGY = "job_id,submit_s,duration_s,gpus,compute_milli,devices,together\n"
OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
OPENB_TIMES = OPENB.strip() + ",creation_time,deletion_time,scheduled_time\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
MURI = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time\n"
GOOD = "ok,0,1,1,,,,,\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (OWN + GOOD + "a,-1,1,1,,,,,\n", 3, "submit_s: '-1' must be at least 0"),
        (OWN + GOOD + "a,nan,1,1,,,,,\n", 3, "submit_s: 'nan' is not a finite number"),
        (OWN + GOOD + "a,,1,1,,,,,\n", 3, "submit_s: is empty"),
        (OWN + GOOD + "a,0,soon,1,,,,,\n", 3, "duration_s: 'soon' is not a number"),
        (OWN + GOOD + "a,0,1e999,1,,,,,\n", 3, "duration_s: '1e999' is not a finite number"),
        (OWN + GOOD + "a,0,-5,1,,,,,\n", 3, "duration_s: '-5' must be at least 0"),
        (OWN + GOOD + "a,0,1,-1,,,,,\n", 3, "gpus: '-1' must be from 0"),
        (OWN + GOOD + "a,0,1,1.5,,,,,\n", 3, "gpus: '1.5' is not a whole number"),
        (OWN + GOOD + "a,0,1,1,0,,,,\n", 3, "workers: '0' must be from 1"),
        (OWN + GOOD + "a,0,1,1,,1300,,,\n", 3, "compute_milli: '1300' must be from 1 to 1000"),
        (OWN + GOOD + "a,0,1,1,,,-3,,\n", 3, "memory_bytes: '-3' is not an amount"),
        (OWN + GOOD + "a,0,1,1,,,5Xi,,\n", 3, "memory_bytes: unknown unit"),
        (OWN + GOOD + "a,0,1,1,,,,0.9,\n", 3, "max_slowdown: '0.9' must be at least 1"),
        (OWN + GOOD + "a,0,1,1,,,,,batch\n", 3, "kind: 'batch' must be one of training"),
        (OWN + GOOD + "a b,0,1,1,,,,,\n", 3, "job_id: 'a b' must be"),
        (OWN + GOOD + "a,0,1\n", 3, "3 fields where 9 are expected"),
        (OWN + GOOD + "\nok,0,1,1,,,,,\n", 4, "job_id 'ok' stands in line 2 already"),
        (OWN + GOOD + '"a,0,1,1,,,,,\n', 3, "fields where 9 are expected"),
        (TOPOLOGY + "a,0,1,2,300,both,\n", 2, "devices: 'both' must be one of distinct, same"),
        (TOPOLOGY + "a,0,1,1,300,same,\n", 2, "devices: same puts several shares on one GPU"),
        (TOPOLOGY + "a,0,1,2,,same,\n", 2, "devices: same shares a GPU, but mode accepts exclusive alone"),
        (TOPOLOGY + "a,0,1,2,300,,block\n", 2, "together: 'block' must be one of node, nvlink, rack, gpu"),
        (TOPOLOGY + "a,0,1,2,300,,node|now\n", 2, "together: 'node|now' must be a level"),
        (OPENB + "p,1,1,2,500\n", 2, "can only be asked for whole"),
        (OPENB + "p,1,1,1,0\n", 2, "gpu_milli: is 0, but num_gpu is 1"),
        (OPENB + "p,1,1,0,500\n", 2, "gpu_milli: is 500, but num_gpu is 0"),
        (OPENB + "p,1,1,1,1001\n", 2, "gpu_milli: '1001' must be from 0 to 1000"),
        (OPENB + "p,x,1,1,1000\n", 2, "cpu_milli: 'x' is not a number"),
        (PHILLY + "yesterday,1,1,1,vc\n", 2, "timestamp: 'yesterday' is not a time"),
        (PHILLY + "2017-10-09 06:13:03,1,two,1,vc\n", 2, "num_gpus: 'two' is not a number"),
        (PHILLY + "2017-10-09 06:13:03,1,1,1,v\tc\n", 2, "cluster: 'v\\tc' must be"),
        (TIRESIAS + "a,1,now,1,vgg,1,1\n", 2, "submit_time: 'now' is not a number"),
        (OWN + GOOD + "a,1e13,1,1,,,,,\n", 3, "submit_s: '1e13' must be at most 1e+12"),
        (OWN + GOOD + "a,0,1e300,1,,,,,\n", 3, "duration_s: '1e300' must be at most 1e+12"),
        (OWN.replace("kind", "gpus") + GOOD, 1, "the header names 'gpus' twice"),
        (OWN, 1, "holds no job that can be read"),
        ("", 1, "is empty"),
        ("\n\n", 1, "is empty"),
    ],
)  # fmt: skip
def test_a_broken_line_is_named(tmp_path, text, line, what):
    path = write(tmp_path, text)
    with pytest.raises(BrokenTrace) as caught:
        read_trace(path, ReadOptions())
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    assert what in message
    assert "\n" not in message


def test_skipping_counts_and_names_each_bad_line(tmp_path):
    path = write(tmp_path, OWN + "a,-1,1,1,,,,,\n" + GOOD + "b,0,1\nok,0,1,1,,,,,\n")
    trace = read_trace(path, ReadOptions(skip_bad_lines=True))
    assert [row.job_id for row in trace.rows] == ["ok"]
    assert [line.split(": ")[0] for line in trace.bad_lines] == [f"{path}:{n}" for n in (2, 4, 5)]


def test_nothing_but_bad_lines_is_an_error_even_when_skipping(tmp_path):
    path = write(tmp_path, OWN + "a,-1,1,1,,,,,\n")
    with pytest.raises(
        BrokenTrace, match=r"holds no job that can be read; the first line that is wrong: .*:2:"
    ):
        read_trace(path, ReadOptions(skip_bad_lines=True))


@pytest.mark.parametrize("text", [MURI + "0,1,0,1,a,8,1,1,5\n", "hello\n", "{}\n", "a\tb\tc\n", "1,2,3\n"])
def test_what_no_format_recognises_is_refused_with_the_names_to_choose_from(tmp_path, text):
    with pytest.raises(UnknownName, match="--format one of cotenant, openb, philly, tiresias, gavel"):
        read_trace(write(tmp_path, text), ReadOptions())


@pytest.mark.parametrize(
    ("format_name", "what"),
    [
        ("philly", r"t\.csv:1: the header lacks timestamp"),
        ("swf", "trace format 'swf' is unknown"),
        ("gavel", "rates"),
    ],
)
def test_a_format_that_is_forced_but_wrong(tmp_path, format_name, what):
    with pytest.raises(InvalidInput, match=what):
        read_trace(write(tmp_path, OWN + GOOD), ReadOptions(), format_name)


@pytest.mark.parametrize(
    ("text", "options", "what"),
    [
        (OWN + GOOD, {"departures": "true"}, "option 'departures' does not fit a cotenant trace"),
        (OWN + GOOD, {"known_duration": "true"}, "trace; did you mean 'known_durations'[?] choose among"),
        (OPENB + "p,1,1,1,1000\n", {"departures": "perhaps"}, "must be true or false"),
        (OPENB + "p,1,1,1,1000\n", {"departures": "true"}, "has no columns creation_time"),
        (OPENB_TIMES + "p,1,1,1,1000,9,3,\n", {"departures": "true"}, "deletion_time: '3' lies before"),
    ],
)
def test_options_that_do_not_fit(tmp_path, text, options, what):
    with pytest.raises(InvalidInput, match=what):
        read_trace(write(tmp_path, text), ReadOptions(options=options))


@pytest.mark.parametrize("form", FORMATS)
def test_an_option_that_does_not_fit_is_answered_with_all_that_do(tmp_path, form):
    with pytest.raises(InvalidInput) as refused:
        read_trace(write(tmp_path, OWN + GOOD), ReadOptions(options={"colour": "red"}), form.name)
    fit = str(refused.value).rpartition("choose among ")[2].split(", ")
    assert fit == [*form.options, "known_durations", "profiles"]


@pytest.mark.parametrize(
    ("rates", "line", "what"),
    [
        ("source,gpu\n", 1, "the header lacks consolidated"),
        (
            "source,gpu,consolidated,job_type,scale_factor,steps_per_s\nsimulation,v100,1,A,1,fast\n",
            2,
            "steps_per_s",
        ),
        ("source,gpu,consolidated,job_type,scale_factor,steps_per_s\nsimulation,v100\n", 2, ""),
    ],
)
def test_broken_rates_are_named(tmp_path, rates, line, what):
    table = tmp_path / "rates.csv"
    table.write_text(rates)
    path = write(tmp_path, "LM (batch size 5)\tx\t-n\t1\t10\t0\t1\n")
    with pytest.raises(InvalidInput, match=f"rates.csv:{line}: .*{what}"):
        read_trace(path, ReadOptions(options={"throughputs": str(table)}))


def test_a_job_that_would_take_for_ever_is_a_broken_line(tmp_path):
    table = tmp_path / "rates.csv"
    table.write_text(
        "source,gpu,consolidated,job_type,scale_factor,steps_per_s\n"
        "simulation,v100,1,LM (batch size 5),1,0.5\n"
    )
    path = write(tmp_path, f"LM (batch size 5)\tx\t-n\t1\t{10**12}\t0\t1\n")
    with pytest.raises(BrokenTrace, match=r"t\.csv:1: total_steps: '10{12}' would take over 1e\+12 s"):
        read_trace(path, ReadOptions(options={"throughputs": str(table)}))


def test_a_header_that_cannot_be_split_is_line_1(tmp_path):
    path = write(tmp_path, "x" * 200_000 + "\n" + GOOD)
    with pytest.raises(BrokenTrace, match=r"t\.csv:1: the header cannot be split into fields"):
        read_trace(path, ReadOptions(), "cotenant")


def test_bytes_that_are_no_text_are_named_by_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes((OWN + GOOD * 1).encode() + b"\xff\xfe,0,1,1,,,,,\n")
    with pytest.raises(BrokenTrace, match=r"t\.csv:3: is not UTF-8 text"):
        read_trace(path, ReadOptions())


def test_a_gzip_file_that_breaks_off_is_an_error_not_a_short_trace(tmp_path):
    path = tmp_path / "t.csv.gz"
    lines = "".join(f"job-{n},{n * 7919 % 1000},1,1,,,,,\n" for n in range(5000))
    path.write_bytes(gzip.compress((OWN + lines).encode())[:-3000])
    with pytest.raises(BrokenTrace, match=r"t\.csv\.gz:\d+: the file breaks off here"):
        read_trace(path, ReadOptions())


@pytest.mark.parametrize(("name", "what"), [("absent.csv", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_opened(tmp_path, name, what):
    with pytest.raises(InvalidInput, match=what):
        read_trace(tmp_path / name, ReadOptions())
