"""What plans say: reasons, notices and refusals, as they are recorded."""

import json

from tests.machines.wording import STORED, wording


def test_plans_say_what_is_recorded() -> None:
    assert wording() == json.loads(STORED.read_text()), "read `python -m tests.machines.wording; git diff`"
