"""`make test-changed` runs the tests that a change can break."""

from __future__ import annotations

import changed_tests


def test_a_changed_module_selects_the_tests_whose_imports_reach_it(repository):
    found = {
        str(test.relative_to(repository)) for test in changed_tests.selected({repository / "sightword/io/mapping.py"})
    }
    assert {"tests/io/test_mapping.py", "tests/corpus/test_coco.py", "tests/encoder/test_word_vectors.py"} <= found
    assert not {"tests/test_messages.py", "tests/statistics/test_statistics.py", "tests/model/test_pooling.py"} & found


def test_a_changed_test_or_support_module_selects_its_tests(repository):
    test, support = repository / "tests/model/test_pooling.py", repository / "tests/support/sums.py"
    assert changed_tests.selected({test}) == [test]
    assert repository / "tests/model/test_pooling.py" not in changed_tests.selected({support})
    assert changed_tests.selected({support})


def test_a_changed_file_that_nobody_imports_selects_the_tests_that_name_it(repository):
    found = changed_tests.selected({repository / "tests/papers.csv"})
    assert repository / "tests/test_citations.py" in found
