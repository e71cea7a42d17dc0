"""The manager over real HTTP: what users and their client may rely on."""

from __future__ import annotations

import threading

import pytest

from manager.wire.agent_models import ReportKind
from manager.wire.client import Client
from manager.wire.models import MASK, JobSpec, ProfileSpec, RequestSpec
from placement.lifecycle import JobState
from placement.model import Denied, ExitCause, InvalidInput, NotFound, Unreachable
from tests.contract.served import NODE, TOKEN, Running, eventually


def test_a_submission_is_answered_with_where_it_was_placed(manager: Running) -> None:
    manager.join()
    job = manager.submit(name="first", env={"KEY": "secret"}, tenant="blue")
    assert (job.job_id, job.state, job.env, job.position) == ("job-1", JobState.STARTING, {"KEY": MASK}, None)
    assert [(a.node_id, a.shares[0].gpu_model) for a in job.assignments] == [(NODE, "A100-SXM4-80GB")]
    assert manager.client.explanation("job-1").outcome == "fit"


def test_the_same_key_gives_the_same_job_and_never_another(manager: Running) -> None:
    spec = JobSpec(command=("true",))
    first = manager.client.submit(spec, idempotency_key="k1")
    assert manager.client.submit(spec, idempotency_key="k1").job_id == first.job_id
    assert manager.client.submit(spec, idempotency_key="k2").job_id != first.job_id
    with pytest.raises(InvalidInput, match="used for another job"):
        manager.client.submit(JobSpec(command=("false",)), idempotency_key="k1")


def test_the_same_key_from_many_at_once_makes_one_job(manager: Running) -> None:
    found: list[str] = []
    spec = JobSpec(command=("true",))

    def submit() -> None:
        found.append(manager.client.submit(spec, idempotency_key="same").job_id)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["job-1"] * 8


def test_a_job_that_could_never_fit_is_rejected_with_reasons(manager: Running) -> None:
    manager.join()
    job = manager.submit(request=RequestSpec(gpus=1, memory_bytes=1 << 40))
    assert job.state is JobState.REJECTED
    assert "memory" in job.failure
    assert manager.client.cancel(job.job_id).state is JobState.REJECTED
    assert job.failure in manager.client.explanation(job.job_id).note


def test_waiting_jobs_have_places_and_reasons(manager: Running) -> None:
    manager.join()
    jobs = [manager.submit(request=RequestSpec(gpus=2, modes=("exclusive",))) for _ in range(3)]
    shown = manager.client.jobs(state=JobState.QUEUED)
    assert [(job.job_id, job.position) for job in shown] == [(jobs[1].job_id, 0), (jobs[2].job_id, 1)]
    why = manager.client.explanation(jobs[1].job_id)
    assert why.outcome != "fit"
    assert sum(why.reasons.values()) > 0


def test_listings_can_be_narrowed(manager: Running) -> None:
    for tenant in ("blue", "red", "blue"):
        manager.submit(tenant=tenant)
    assert [job.job_id for job in manager.client.jobs(tenant="blue")] == ["job-1", "job-3"]
    assert manager.client.jobs(state=JobState.RUNNING) == []


def test_a_listing_shows_only_jobs_that_have_not_ended_or_the_latest(manager: Running) -> None:
    jobs = [manager.submit().job_id for _ in range(4)]
    manager.client.cancel(jobs[1])
    assert [job.job_id for job in manager.client.jobs(ended=False)] == [jobs[0], jobs[2], jobs[3]]
    assert [job.job_id for job in manager.client.jobs(ended=True)] == [jobs[1]]
    assert [job.job_id for job in manager.client.jobs(limit=2)] == [jobs[2], jobs[3]]
    assert [job.job_id for job in manager.client.jobs(ended=False, limit=3)] == [jobs[0], jobs[2], jobs[3]]


def test_nodes_and_their_gpus_come_by_node_id_whoever_joined_first(manager: Running) -> None:
    for node_id in ("node-b", "node-c", "node-a"):
        manager.join("2xV100-SXM2-32GB", node_id)
    assert [node.node_id for node in manager.client.nodes()] == ["node-a", "node-b", "node-c"]
    places = [(gpu.node_id, gpu.slot) for gpu in manager.client.gpus()]
    assert places == [(node_id, slot) for node_id in ("node-a", "node-b", "node-c") for slot in (0, 1)]


def test_a_profile_can_be_used_as_soon_as_it_is_accepted(manager: Running) -> None:
    profile = ProfileSpec(name="vision", steps_per_s={"*": 10.0}, sm_milli=500)
    manager.client.put_profile(profile)
    assert manager.submit(profile="vision").profile == "vision"
    assert manager.client.profiles() == [profile]
    response = manager.raw("PUT", "/v1/profiles/other", json=profile.model_dump())
    assert (response.status_code, "make them equal" in response.json()["error"]) == (422, True)


def test_metrics_and_info_are_complete(manager: Running) -> None:
    manager.join()
    manager.submit()
    metrics = manager.client.metrics()
    assert (metrics["jobs_total"], metrics["jobs_completed"], metrics["avg_jct_s"]) == (1, 0, None)
    info = manager.client.info()
    assert (info.epoch, info.policy, info.database) == (1, "cotenant", "sqlite")


def test_errors_of_the_client_are_of_the_tree(manager: Running) -> None:
    with Client(manager.url, "wrong-token-for-tests") as stranger, pytest.raises(Denied):
        stranger.info()
    with Client(manager.url, None) as nobody, pytest.raises(Denied):
        nobody.info()
    with pytest.raises(NotFound, match="job-5"):
        manager.client.job("job-5")
    with (
        Client("http://127.0.0.1:9", TOKEN, timeout_s=2) as lost,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"),
    ):
        lost.info()


def test_a_store_that_refuses_is_told_and_nothing_is_accepted(manager: Running) -> None:
    with manager.services.store.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE inbox RENAME TO gone")
    response = manager.raw("POST", "/v1/jobs", json={"command": ["true"]})
    assert response.status_code == 503
    assert "\n" not in response.json()["error"]
    with manager.services.store.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE gone RENAME TO inbox")
    assert manager.client.jobs() == []
    assert manager.submit().job_id == "job-1"


def test_a_job_tells_its_neighbours_of_now_from_those_of_all_times(manager: Running) -> None:
    manager.join("1xA100-SXM4-80GB")
    request = RequestSpec(compute_milli=300, memory_bytes=1 << 30)
    first, second, third = (manager.submit(request=request) for _ in range(3))
    for job in (first, second, third):
        manager.report(job, ReportKind.STARTED)
    client, both = manager.client, (second.job_id, third.job_id)
    assert client.explanation(first.job_id).neighbours == both
    manager.report(second, ReportKind.EXITED, cause=ExitCause.EXITED, exit_code=0)
    eventually(lambda: client.explanation(first.job_id).neighbours == (third.job_id,))
    assert client.job(first.job_id).neighbours == both
    assert client.explanation(second.job_id).neighbours == ()
