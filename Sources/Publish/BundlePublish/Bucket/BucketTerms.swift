/// The options of a bucket.
package struct BucketTerms: Sendable {
    /// Whether this is the only writer, so that conditional writes are not needed.
    package var isSingleWriter = false
    /// The time for which caches may keep files that change.
    package var documentMaxAge = Duration.seconds(30)
    /// The number of attempts of a request that may succeed later.
    package var attempts = 5
    /// The first wait between two attempts; each wait is up to twice as long as the previous one.
    package var firstPause = Duration.milliseconds(200)

    package init() {}
}
