/// The source tree that the tests were built from.
package enum Checkout {
    /// Its folder.
    package static let root = #filePath.split(separator: "/").dropLast(4).reduce("") { "\($0)/\($1)" }
}
