"""Arrow's error texts of stores, and our texts in place of them."""

import pytest

from cqrs_cli.storage.reasons import explain_store_error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "access is denied"),
        ("AWS Error NO_SUCH_BUCKET during PutObject operation: It does not", "the bucket does not exist"),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7", "it cannot be reached"),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28", "it does not answer"),
        ("AWS Error VALIDATION during GetObject operation: Response checksums mismatch", "it was altered"),
        ("AWS Error SLOW_DOWN\nduring PutObject", "AWS Error SLOW_DOWN during PutObject"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_reason_is_a_line(error: str, text: str) -> None:
    reason = explain_store_error(OSError(error))
    assert reason.text.startswith(text) and "\n" not in reason.text and reason.hint
