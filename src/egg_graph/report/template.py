"""Compile the template of a page."""

from collections.abc import Mapping
from typing import Any

import jinja2


def page_template(package: str, name: str, filters: Mapping[str, Any]) -> jinja2.Template:
    """Compile a template that lies beside a package's modules. What it shows is escaped; an unknown name is an error.

    Args:
        package: the package, such as `egg_graph.report`.
        name: the template's file.
        filters: functions that the template calls by name.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "."), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(filters)
    return environment.get_template(name)
