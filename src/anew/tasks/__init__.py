"""The Python way in: tasks, workers, and an embedded queue in one file."""
