@testable import BundleDisk
import Glibc

/// Runs the target with an input from libFuzzer. Each target declares `fuzz`.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try fuzz([UInt8](UnsafeBufferPointer(start: start, count: count)))
    } catch {
        fatalError("an undocumented error: \(error)")
    }
    return 0
}

/// Sets the character set in which libarchive reads names, as clientctl does.
@_cdecl("LLVMFuzzerInitialize")
public func initialize(_ count: UnsafeMutableRawPointer?, _ arguments: UnsafeMutableRawPointer?) -> CInt {
    require(CharacterSet.useUTF8(), "the locale C.UTF-8 is available")
    return 0
}

/// Checks a property. A violation is a finding.
func require(_ holds: Bool, _ what: @autoclosure () -> String) {
    if !holds { fatalError("violated: \(what())") }
}

/// Returns the value. A missing value is a finding.
func require<Value>(_ value: Value?, _ what: @autoclosure () -> String) -> Value {
    guard let value else { fatalError("violated: \(what())") }
    return value
}

extension [UInt8] {
    /// The lines without line feeds.
    var lines: [[UInt8]] { split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init) }
}
