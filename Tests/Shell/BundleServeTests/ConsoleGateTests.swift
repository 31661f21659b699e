import Testing

@testable import BundleServe

@Suite struct ConsoleGateTests {
    @Test func `a code admits one browser once`() {
        var gate = ConsoleGate(code: "code")
        let isWrong = gate.enter("cod3", taking: "a", at: .zero)
        let isFirst = gate.enter("code", taking: "b", at: .zero)
        let isSecond = gate.enter("code", taking: "c", at: .zero)
        #expect(!isWrong && isFirst && !isSecond)
        for (cookie, isAdmitted) in [("a", false), ("b", true), ("c", false), ("code", false)] {
            let result = gate.admits(cookie, at: .seconds(1))
            #expect(result == isAdmitted, "\(cookie)")
        }
        let isAdmitted = gate.admits(nil, at: .seconds(1))
        #expect(!isAdmitted)
    }

    @Test func `a pause of 30 minutes locks the console, and a new code opens it`() {
        var gate = ConsoleGate(code: "code")
        _ = gate.enter("code", taking: "a", at: .zero)
        let (before, late) = (ConsoleGate.longestPause - .seconds(1), ConsoleGate.longestPause * 2)
        let isEarly = gate.lock(taking: "new", at: before)
        let isAdmitted = gate.admits("a", at: before)
        #expect(!isEarly && isAdmitted)
        let isLateAdmitted = gate.admits("a", at: late)
        let isLocked = gate.lock(taking: "new", at: late)
        let isLockedAgain = gate.lock(taking: "newer", at: late)
        #expect(!isLateAdmitted && isLocked && !isLockedAgain)
        let isOld = gate.enter("code", taking: "b", at: late)
        let isNew = gate.enter("new", taking: "b", at: late)
        #expect(!isOld && isNew)
    }
}
