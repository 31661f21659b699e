/// The source tree of the tests.
package enum Checkout {
    package static let root = #filePath.split(separator: "/").dropLast(4).reduce("") { "\($0)/\($1)" }
}
