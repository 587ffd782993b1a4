"""The syntax of labels and of taints' keys and values.

Source: pkg/util/validation in k8s.io/apimachinery.
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LONGEST_LABEL = 63


def label_value_complaints(value: str) -> list[str]:
    """Return what IsValidLabelValue in k8s.io/apimachinery says."""
    complaints = []
    if len(value) > _LONGEST_LABEL:
        complaints.append(f"must be no more than {_LONGEST_LABEL} characters")
    if value and not _LABEL.fullmatch(value):
        complaints.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
            f"'12345', regex used for validation is '({_LABEL.pattern})?')"
        )
    return complaints


def qualified_name_complaints(key: str) -> list[str]:
    """Return what IsQualifiedName in k8s.io/apimachinery says; a prefix is taken as it is."""
    name = key.rpartition("/")[2]
    complaints = []
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > _LONGEST_LABEL:
        complaints.append(f"name part must be no more than {_LONGEST_LABEL} characters")
    if not _LABEL.fullmatch(name):
        complaints.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
            "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            f"validation is '{_LABEL.pattern}')"
        )
    return complaints
