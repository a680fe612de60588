//! Whatever is done to a store, what sums it up equals its log.
