"""Huge pages as Kubernetes names them: the resource `hugepages-2Mi` is bytes in pages of 2 MiB."""

_PREFIX = "hugepages-"


def in_pages(resource: str) -> bool:
    return resource.startswith(_PREFIX)


def pages_of(size: str) -> str:
    """Return the resource name for a page size such as "2Mi"."""
    return f"{_PREFIX}{size}"


def size_of(resource: str) -> str:
    """Return the page size in a resource's name, such as "2Mi"."""
    return resource.removeprefix(_PREFIX)
