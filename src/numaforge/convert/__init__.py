"""Other tools' files as profiles: text in, a profile and notes out."""

from numaforge.convert.draft import Conversion, Note
from numaforge.convert.forms import FORM_NAMES, convert
from numaforge.convert.yaml_text import as_yaml

__all__ = ["FORM_NAMES", "Conversion", "Note", "as_yaml", "convert"]
