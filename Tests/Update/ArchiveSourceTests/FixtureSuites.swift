import Testing

/// What works through all fixtures, one archive at a time: each blocks a thread for its decompression and disk writes,
/// and other tests measure time.
@Suite(.serialized) enum EveryFixture {}
