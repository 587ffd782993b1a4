"""The syntax of labels, and of the keys and values of taints.

Source: pkg/util/validation in k8s.io/apimachinery.
"""

import re

_LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253


def label_value_complaints(value: str) -> list[str]:
    """Return the complaints of IsValidLabelValue in k8s.io/apimachinery."""
    complaints = []
    if len(value.encode()) > _LONGEST_LABEL:
        complaints.append(f"must be no more than {_LONGEST_LABEL} bytes")
    if value and not _LABEL.fullmatch(value):
        complaints.append(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
            f"'12345', regex used for validation is '({_LABEL.pattern})?')"
        )
    return complaints


def qualified_name_complaints(key: str) -> list[str]:
    """Return the complaints of IsQualifiedName in k8s.io/apimachinery."""
    if key.count("/") > 1:
        complaint = (
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and "
            "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            f"validation is '{_LABEL.pattern}') with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        )
        return [complaint]
    prefix, slash, name = key.rpartition("/")
    complaints = _prefix_complaints(prefix) if slash else []
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name.encode()) > _LONGEST_LABEL:
        complaints.append(f"name part must be no more than {_LONGEST_LABEL} bytes")
    if not _LABEL.fullmatch(name):
        complaints.append(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
            "an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            f"validation is '{_LABEL.pattern}')"
        )
    return complaints


def _prefix_complaints(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    complaints = []
    if len(prefix.encode()) > _LONGEST_SUBDOMAIN:
        complaints.append(f"prefix part must be no more than {_LONGEST_SUBDOMAIN} bytes")
    if not _SUBDOMAIN.fullmatch(prefix):
        complaints.append(
            "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            f"regex used for validation is '{_SUBDOMAIN.pattern}')"
        )
    return complaints
