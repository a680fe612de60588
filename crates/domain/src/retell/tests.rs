//! The budget holds, whatever the history; the order is that of the specification.
