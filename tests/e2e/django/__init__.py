"""A real Django project with `anew.django`."""
