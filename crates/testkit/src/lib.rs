//! For tests: stores that go away.
