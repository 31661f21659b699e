@testable import BundleDisk
import Glibc

/// What libFuzzer calls with each input; `fuzz` is the target's own.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try fuzz([UInt8](UnsafeBufferPointer(start: start, count: count)))
    } catch {
        fatalError("an error that is no documented refusal: \(error)")
    }
    return 0
}

/// libarchive reads names in the process's character set, as in clientctl.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(_ count: UnsafeMutableRawPointer?, _ arguments: UnsafeMutableRawPointer?) -> CInt {
    require(CharacterSet.useUTF8(), "there is no C.UTF-8 here")
    return 0
}

/// A property of the product; that it does not hold is a finding.
func require(_ holds: Bool, _ what: @autoclosure () -> String) {
    if !holds { fatalError("does not hold: \(what())") }
}

/// The value, whose absence is a finding.
func require<Value>(_ value: Value?, _ what: @autoclosure () -> String) -> Value {
    guard let value else { fatalError("does not hold: \(what())") }
    return value
}

extension [UInt8] {
    /// The lines, the last one without its end.
    var lines: [[UInt8]] { split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init) }
}
