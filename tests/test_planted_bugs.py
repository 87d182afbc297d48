"""The list of planted bugs is one that can be planted; `.ci/long` plants them."""

import re

import pytest
from planted_bugs import BUGS, ROOT


def test_names_are_unique():
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_text_to_change_is_there_once_and_so_is_the_test(bug):
    assert (ROOT / bug.file).read_text("utf-8").count(bug.old) == 1
    assert bug.new != bug.old
    path, _, test = bug.test.partition("::")
    function = re.sub(r"\[.*", "", test).rpartition("::")[2]
    assert re.search(rf"^ *def {function}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
