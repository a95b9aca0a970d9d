"""A Django project in a folder of its own, and its processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SETTINGS = """
from pathlib import Path

BASE_DIR = Path(__file__).parent
SECRET_KEY = "x"
USE_TZ = True
INSTALLED_APPS = {apps!r}
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {{"default": {{"BACKEND": "anew.django.AnewBackend", "QUEUES": [], "OPTIONS": {options!r}}}}}
ANEW = {anew!r}
"""

MANAGE = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""

MODELS = """
from django.db import models

class Order(models.Model):
    paid = models.BooleanField(default=False)
    note = models.TextField(default="")
"""

TASKS = """
import os

from anew import Discard, ctx
from anew.django import app, options
from shop.models import Order
try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

@task
def pay(order_id, note=""):
    order = Order.objects.get(pk=order_id)
    order.paid, order.note = True, note
    order.save()
    return {"paid": order_id}

@task(queue_name="mail", priority=10)
@options(policy=["1ms", "1ms"], keep_result="1h")
def flaky(fails):
    if ctx.attempt <= fails:
        raise ConnectionError(f"attempt {ctx.attempt}")
    return ctx.attempt

@task(takes_context=True)
async def beside_the_loop(context, a, b):
    count = await Order.objects.acount()
    return [context.attempt, context.task_result.id == ctx.job_id, a + b, count]

@task
@options(process=True)
def in_a_process():
    return [os.getpid(), Order.objects.count()]

@app.task(policy=["1ms"], keep_result="1h")
def own(order_id: int) -> bool:
    return Order.objects.filter(pk=order_id, paid=True).exists()
"""

HIDDEN = """
try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

@task
def found_by_its_path():
    return "found"
"""


class Project:
    """A project whose app is ``shop``.

    Args:
        folder: Where it is.
        options: OPTIONS of its tasks' backend.
        anew: Its setting ANEW.
    """

    def __init__(self, folder: Path, *, options: dict[str, Any] | None = None, anew: object = None) -> None:
        self.folder = folder
        apps = ["anew.django", "shop"]
        if not has_tasks_of_its_own():
            apps.append("django_tasks")
        settings = SETTINGS.format(apps=apps, options=options or {}, anew={} if anew is None else anew)
        files = {
            "settings.py": settings, "manage.py": MANAGE, "shop/__init__.py": "", "shop/models.py": MODELS,
            "shop/tasks.py": TASKS, "shop/hidden.py": HIDDEN,
        }  # fmt: skip
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)

    def manage(self, *words: str, code: int = 0) -> str:
        """Run a command of ``manage.py``; give what it has written."""
        done = self._run([sys.executable, "manage.py", *words])
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def python(self, text: str) -> Any:
        """Run statements in the project; give what they have put into ``answer``."""
        lines = "import json, django; django.setup(); from shop.tasks import *; answer = None\n"
        done = self._run([sys.executable, "-c", f"{lines}{text}\nprint(json.dumps(answer))"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        variables = os.environ | {
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": os.pathsep.join([str(self.folder), *sys.path]),
        }
        return subprocess.run(
            words, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=60
        )


def has_tasks_of_its_own() -> bool:
    """Report whether this Django brings `django.tasks`, as 6.0 and later do."""
    import django

    return django.VERSION >= (6, 0)
