"""Django's own tasks, and Anew's, in a real project: enqueued, run by ``manage.py anew_worker``, looked at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.docs import ROOT, blocks

from .project import Project, has_tasks_of_its_own

pytest.importorskip("django")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's empty database."""
    made = Project(tmp_path_factory.mktemp("django"))
    made.manage("migrate", "--run-syncdb", "--verbosity", "0")
    return made.folder / "db.sqlite3"


@pytest.fixture
def project(database: Path, tmp_path: Path) -> Project:
    """A project whose database is there."""
    shutil.copy(database, tmp_path)
    return Project(tmp_path)


def test_djangos_tasks_are_durable_jobs_with_results(project: Project) -> None:
    ids = project.python(
        "order = Order.objects.create()\n"
        "first = pay.enqueue(order.pk, note='x')\n"
        "answer = [first.id, first.status, first.args, first.kwargs, first.enqueued_at is not None, order.pk]"
    )
    assert ids[1:5] == ["READY", [ids[5]], {"note": "x"}, True]
    project.manage("anew_worker", "--burst")
    shown = project.python(
        f"result = pay.get_result({ids[0]!r})\n"
        "answer = [result.status, result.return_value, result.is_finished, result.attempts, result.args,\n"
        "  result.kwargs, result.errors, result.enqueued_at <= result.started_at <= result.finished_at,\n"
        f"  Order.objects.get(pk={ids[5]}).note, result.task == pay]"
    )
    assert shown == ["SUCCESSFUL", {"paid": ids[5]}, True, 1, [ids[5]], {"note": "x"}, [], True, "x", True]


@pytest.mark.parametrize("serializer", ["json", "msgpack"])
def test_the_result_shows_the_arguments_however_they_are_written(tmp_path: Path, serializer: str) -> None:
    shown = Project(tmp_path, anew={"SERIALIZER": serializer}).python(
        "from anew.jobs import NewJob\n"
        "from msgspec import Raw\n"
        "ids = [pay.enqueue(7, note='x').id]\n"
        "for payload in (b'[7]', b'\"seven\"'):\n"
        "  (placed,) = app.backend.enqueue([NewJob('shop.tasks.pay', 'default', Raw(payload))], plain=True)\n"
        "  ids.append(placed.id)\n"
        "found = [pay.get_result(one) for one in ids]\n"
        "answer = [[one.args, one.kwargs] for one in found]"
    )
    assert shown == [[[7], {"note": "x"}], [[7], {}], [[], {}]]


def test_failed_runs_are_tried_again_as_the_tasks_policy_says(project: Project) -> None:
    ids = project.python("answer = [flaky.enqueue(n).id for n in (2, 3)]")
    project.manage("anew_worker", "--burst", "--concurrency", "1")
    while project.python("answer = app.counts()['retrying'] + app.counts()['ready']"):
        project.manage("anew_worker", "--burst")
    shown = project.python(
        f"answer = []\nfor one in {ids}:\n"
        "  result = flaky.get_result(one)\n"
        "  answer.append([result.status, result.attempts, [e.exception_class_path for e in result.errors],\n"
        "    'attempt 1' in result.errors[0].traceback])"
    )
    path = "builtins.ConnectionError"
    assert shown == [["SUCCESSFUL", 3, [path] * 2, True], ["FAILED", 3, [path] * 3, True]]
    listed = project.python(
        f"info = app.job({ids[0]!r}).info(); answer = [info.task, info.queue, info.priority]"
    )
    assert listed == ["shop.tasks.flaky", "mail", 32768 - 10 * 100]


def test_tasks_run_in_a_loop_and_in_processes_with_the_database(project: Project) -> None:
    ids = project.python(
        "Order.objects.create()\nanswer = [beside_the_loop.enqueue(1, b=2).id, in_a_process.enqueue().id]"
    )
    project.manage("anew_worker", "--burst")
    got = project.python(
        f"answer = [beside_the_loop.get_result({ids[0]!r}).return_value, in_a_process.get_result({ids[1]!r}).return_value[1]]"
    )
    assert got == [[1, True, 3, 1], 1]


def test_a_task_is_deferred_and_enqueued_when_the_transaction_commits(project: Project) -> None:
    answer = project.python(
        "import datetime\n"
        "from django.db import transaction\n"
        "from anew.django import enqueue_on_commit\n"
        "later = pay.using(run_after=datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc), priority=100).enqueue(1)\n"
        "info = app.job(later.id).info()\n"
        "counts = []\n"
        "with transaction.atomic():\n"
        "  order = Order.objects.create()\n"
        "  enqueue_on_commit(own, order.pk)\n"
        "  enqueue_on_commit(pay, order.pk, note='n')\n"
        "  counts.append(app.counts()['ready'])\n"
        "counts.append(app.counts()['ready'])\n"
        "try:\n"
        "  with transaction.atomic():\n"
        "    enqueue_on_commit(own, 5)\n"
        "    raise KeyError\n"
        "except KeyError:\n"
        "  counts.append(app.counts()['ready'])\n"
        "answer = [str(info.state), info.ready_at, info.priority, counts]"
    )
    assert answer == ["scheduled", 4_102_444_800_000, 32768 - 100 * 100, [0, 2, 2]]


def test_a_task_in_a_module_that_nobody_imports_is_found_by_its_path(project: Project) -> None:
    job_id = project.python("from shop.hidden import found_by_its_path as f; answer = f.enqueue().id")
    project.manage("anew_worker", "--burst")
    assert (
        project.python(
            f"from shop.hidden import found_by_its_path as f; answer = f.get_result({job_id!r}).return_value"
        )
        == "found"
    )


@pytest.mark.parametrize("tasks", ["", "from anew.django import app\n@app.task\ndef own() -> None: ...\n"])
def test_such_a_task_is_found_also_where_the_worker_knows_no_task_of_djangos(
    project: Project, tasks: str
) -> None:
    (project.folder / "shop" / "tasks.py").write_text(tasks)
    job_id = project.python("from shop.hidden import found_by_its_path as f; answer = f.enqueue().id")
    project.manage("anew_worker", "--burst")
    found = project.python(
        f"from shop.hidden import found_by_its_path as f; answer = str(f.get_result({job_id!r}).status)"
    )
    assert found == "SUCCESSFUL"


def test_a_job_whose_type_cannot_be_imported_waits_and_holds_up_no_other(project: Project) -> None:
    (project.folder / "shop" / "broken.py").write_text("1 / 0\n")
    ids = project.python(
        "names = ['.x', '..', 'shop.broken.task', 'nowhere.task']\n"
        "answer = [app.task(name=name)(lambda: None).enqueue().id for name in names] + [flaky.enqueue(0).id]"
    )
    project.manage("anew_worker", "--burst")
    assert project.python(f"answer = [app.job(one).status() for one in {ids}]") == ["scheduled"] * 4 + [
        "completed"
    ]


def test_djangos_signals_are_sent(project: Project) -> None:
    (project.folder / "shop" / "apps.py").write_text(
        "from django.apps import AppConfig\n"
        "def tell(sender, task_result, signal=None, **_):\n"
        "  with open('told', 'a') as out: out.write(f'{task_result.task.name} {task_result.status}\\n')\n"
        "class ShopConfig(AppConfig):\n"
        "  name = 'shop'\n"
        "  def ready(self):\n"
        "    try: from django.tasks import signals\n"
        "    except ImportError: from django_tasks import signals\n"
        "    for one in (signals.task_enqueued, signals.task_finished): one.connect(tell, weak=False)\n"
    )
    project.python("order = Order.objects.create(); pay.enqueue(order.pk); pay.enqueue(999)")
    project.manage("anew_worker", "--burst")
    told = (project.folder / "told").read_text().splitlines()
    assert told == ["pay READY", "pay READY", "pay SUCCESSFUL"]  # the other one is tried again


def test_djangos_own_tasks_can_be_asserted(project: Project) -> None:
    shown = project.python(
        "answer = []\n"
        "def refused(check):\n"
        "  try: check()\n"
        "  except AssertionError as error: answer.append(str(error).splitlines()[0])\n"
        "with app.test() as test:\n"
        "  test.assert_not_enqueued(pay)\n"
        "  refused(lambda: test.assert_enqueued(pay, 7))\n"
        "  pay.enqueue(7, note='x')\n"
        "  beside_the_loop.enqueue(1, b=2)\n"
        "  for args, kwargs in (((), {}), ((7,), {}), ((), {'order_id': 7, 'note': 'x'})):\n"
        "    answer.append(len(test.assert_enqueued(pay, *args, count=1, **kwargs)))\n"
        "  answer.append(test.assert_enqueued(beside_the_loop, a=1, b=2) == test.jobs(task=beside_the_loop))\n"
        "  pay.enqueue(8)\n"
        "  answer.append(len(test.assert_enqueued(pay, note='')))\n"
        "  test.assert_not_enqueued(pay, 9)\n"
        "  refused(lambda: test.assert_not_enqueued(pay, note='x'))"
    )
    assert shown == [
        "expected a job of shop.tasks.pay(7), found 0; nothing was enqueued",
        *(1, 1, 1, True, 1),
        "expected no job of shop.tasks.pay(note='x'), found 1; enqueued or run until now:",
    ]


def test_there_is_no_result_of_a_job_that_is_not_there(project: Project) -> None:
    answer = project.python(
        "from anew.django.backend import TaskResultDoesNotExist\n"
        "answer = []\n"
        "for one in ('nothing', own.enqueue(1).id):\n"
        "  try: pay.get_result(one)\n"
        "  except TaskResultDoesNotExist: answer.append(True)"
    )
    assert answer == [True, True]


@pytest.mark.parametrize(
    ("options", "anew", "words"),
    [
        (
            {"polcy": ["1s"]},
            None,
            "TASKS['default']['OPTIONS']: polcy: is no option; expected one of policy,",
        ),
        ({"policy": "nonsense"}, None, "TASKS['default']['OPTIONS']: "),
        ({}, {"STOR": "x.db"}, "ANEW: 'STOR' is no key of it; expected some of STORE,"),
        (
            {},
            {"SERIALIZER": "pickle"},
            'ANEW: serializer: "pickle" is not valid; expected "json" or "msgpack"',
        ),
        ({}, ["x"], "ANEW: is of the type list; expected a dict"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    tmp_path: Path, options: dict[str, object], anew: object, words: str
) -> None:
    said = Project(tmp_path, options=options, anew=anew).manage("check", code=1)
    assert words in said
    assert "Traceback" not in said


def test_options_above_the_task_are_refused_with_the_way_to_say_them(project: Project) -> None:
    answer = project.python(
        "from anew.django import options\n"
        "from anew.errors import InvalidInput\n"
        "try: options(max_attempts=2)(pay)\n"
        "except InvalidInput as error: answer = str(error)"
    )
    assert answer.endswith("expected it below @task, next to the function")


def test_the_examples_of_the_document_run(database: Path, tmp_path: Path) -> None:
    settings, tasks, look, commit, own, anew, tests = [
        block.text for block in blocks(ROOT / "docs" / "django.md", "python")
    ]
    project = Project(tmp_path)
    shutil.copy(database, tmp_path)
    if not has_tasks_of_its_own():
        tasks = tasks.replace("from django.tasks", "from django_tasks")
    written = (project.folder / "settings.py").read_text()
    apps = "INSTALLED_APPS += [one for one in OTHERS if one not in INSTALLED_APPS]"
    others = written.replace("INSTALLED_APPS =", "OTHERS =").replace("\nTASKS =", "\nUNUSED =")
    (project.folder / "settings.py").write_text("\n".join([others, settings, apps, anew]))
    (project.folder / "shop" / "tasks.py").write_text(tasks + own)
    (project.folder / "shop" / "tests.py").write_text("from shop.tasks import send_receipt\n" + tests)
    project.manage("check")
    commit = "from shop.models import Order\n" + commit
    look = look.replace("result.refresh()", "app.run_worker(burst=True); result.refresh()")
    assert project.python(f"{commit}\n{look}\nanswer = str(result.status)") == "SUCCESSFUL"
    assert project.python("app.put_crons(); answer = [*app.crons]") == ["shop.tasks.nightly"]
    assert "OK" in project.manage("test")


def test_the_worker_says_what_it_can(project: Project) -> None:
    assert "--concurrency" in project.manage("anew_worker", "--help")
    assert "no such option" in project.manage("anew_worker", "--nonsense", code=2).lower()
