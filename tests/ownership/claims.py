"""Claims that several tests use."""

from hypothesis import strategies as st

from cqrs_cli.ownership.claim import Claim

OWN_CLAIM = Claim(10, "m", 1, 1, 7, "topic", 4)

small_numbers = st.integers(0, 2)
claims = st.builds(
    Claim,
    small_numbers,
    st.sampled_from("ab"),
    small_numbers,
    small_numbers,
    st.integers(0, 9),
    st.just("topic"),
    st.just(4),
)
