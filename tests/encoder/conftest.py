"""The encoder that the tests share."""

import pytest
from small_encoder import made


@pytest.fixture
def encoder():
    return made()
