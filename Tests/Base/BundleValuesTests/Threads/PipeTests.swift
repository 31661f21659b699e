import BundleTestTraits
import BundleValues
import Glibc
import Synchronization
import Testing

private struct Broken: Error, Equatable {
    var number = 0
}

private typealias Numbers = Pipe<Int, Broken>

/// A thread and the result of its body.
private final class Running<Value: Sendable>: Sendable {
    private final class Place: Sendable { let value = Mutex<Result<Value, any Error>?>(nil) }

    private let place = Place()
    private let thread: BlockingThread

    init(_ body: @escaping @Sendable () throws -> Value) throws {
        thread = try BlockingThread { [place] in
            let result = Result { try body() }
            place.value.withLock { $0 = result }
        }
    }

    func result() throws -> Value {
        thread.join()
        return try #require(place.value.withLock { $0 }).get()
    }
}

/// Random yields, determined by `seed`.
private struct Turns {
    private var state: UInt64

    init(_ seed: Int) { state = UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func next() -> Int {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return Int(state >> 33)
    }

    /// Yields rarely, because each yield can wait for all other threads of a busy machine.
    mutating func pass() {
        if next() % 64 == 0 { sched_yield() }
    }

    /// Yields a few times, so that the started threads can begin to wait.
    mutating func settle() {
        for _ in 0..<(next() % 4) { sched_yield() }
    }
}

@Suite("Pipe", .ownThread) struct PipeTests {
    @Test(arguments: 0..<60)
    func `delivers each element once and in order, and never exceeds its capacity`(seed: Int) throws {
        let senders = 1 + seed % 3
        let capacity = 1 + seed % 5
        let each = 200
        let pipe = Numbers(capacity: capacity)
        let (sent, asked, ended) = (Counter(), Counter(), Counter())
        let sending = try (0..<senders).map { sender in
            try Running {
                var turns = Turns(seed * 10 + sender)
                var most = 0
                for number in 0..<each {
                    turns.pass()
                    try pipe.send(sender * each + number)
                    // Some requested elements have not arrived yet, so this is a lower bound of the pipe's content.
                    most = max(most, sent.add() - asked.count)
                }
                if ended.add() == senders { pipe.finish() }
                return most
            }
        }
        let receiving = try Running {
            var turns = Turns(seed * 10 + 9)
            var received: [Int] = []
            while true {
                turns.pass()
                asked.add()
                guard let number = try pipe.receive() else { return received }
                received.append(number)
            }
        }
        let received = try receiving.result()
        for sender in 0..<senders {
            let numbers = received.filter { $0 / each == sender }
            #expect(numbers == Array(sender * each..<(sender + 1) * each))
        }
        for most in try sending.map({ try $0.result() }) { #expect(most <= capacity) }
        #expect(try pipe.receive() == nil)
    }

    @Test(arguments: 0..<20) func `delivers each element to one of several receivers`(seed: Int) throws {
        let pipe = Numbers(capacity: 2)
        let finished = Counter()
        let receiving = try (0..<3).map { receiver in
            try Running {
                var turns = Turns(seed * 10 + receiver)
                var received: [Int] = []
                while let number = try pipe.receive() {
                    received.append(number)
                    turns.pass()
                }
                // No receiver returns before the end, even if another one was faster.
                #expect(finished.count == 1)
                return received
            }
        }
        for number in 0..<300 { try pipe.send(number) }
        finished.add()
        pipe.finish()
        let received = try receiving.map { try $0.result() }
        for numbers in received { #expect(numbers == numbers.sorted()) }
        #expect(received.flatMap(\.self).sorted() == Array(0..<300))
    }

    @Test(arguments: 0..<20) func `wakes the receiver when the sender ends the pipe`(seed: Int) throws {
        let pipe = Numbers(capacity: 2)
        let receiving = try Running { try pipe.receive() }
        var turns = Turns(seed)
        turns.settle()
        pipe.finish()
        #expect(try receiving.result() == nil)
    }

    @Test(arguments: 0..<20) func `wakes the senders when the receiver ends the pipe`(seed: Int) throws {
        let pipe = Numbers(capacity: 1, holding: [1])
        let sending = try (2...4).map { number in try Running { try pipe.send(number) } }
        var turns = Turns(seed)
        turns.settle()
        pipe.cancel()
        for sender in sending { #expect(try !sender.result()) }
        #expect(try pipe.receive() == nil)
        #expect(try !pipe.send(5))
    }

    @Test(arguments: 0..<20) func `delivers the sender's error after the elements sent before it`(seed: Int) throws {
        let pipe = Numbers(capacity: 3)
        let receiving = try Running {
            var received: [Int] = []
            do {
                while let number = try pipe.receive() { received.append(number) }
                return (received, nil as Broken?)
            } catch {
                return (received, error as? Broken)
            }
        }
        var turns = Turns(seed)
        for number in 1...5 {
            try pipe.send(number)
            turns.pass()
        }
        pipe.finish(throwing: Broken(number: 7))
        let (received, error) = try receiving.result()
        #expect(received == [1, 2, 3, 4, 5])
        #expect(error == Broken(number: 7))
        #expect(throws: Broken(number: 7)) { try pipe.receive() }
    }

    @Test(arguments: 0..<20) func `throws the receiver's error to the senders and drops the elements`(seed: Int)
        throws
    {
        let pipe = Numbers(capacity: 1, holding: [1])
        let sending = try (2...4).map { number in try Running { try pipe.send(number) } }
        var turns = Turns(seed)
        turns.settle()
        pipe.cancel(throwing: Broken(number: 7))
        for sender in sending { #expect(throws: Broken(number: 7)) { try sender.result() } }
        #expect(throws: Broken(number: 7)) { try pipe.receive() }
    }

    @Test func `keeps the first result that either side ends it with`() throws {
        let pipe = Numbers(capacity: 1)
        pipe.finish(throwing: Broken(number: 1))
        pipe.cancel(throwing: Broken(number: 2))
        pipe.finish()
        #expect(throws: Broken(number: 1)) { try pipe.receive() }
        #expect(throws: Broken(number: 1)) { try pipe.send(1) }
    }

    @Test func `releases dropped elements and ignores elements after its end`() throws {
        final class Element: Sendable {}
        let pipe = Pipe<Element, Never>(capacity: 2)
        weak var first: Element?
        weak var second: Element?
        do {
            let elements = (Element(), Element())
            (first, second) = elements
            pipe.send(elements.0)
            #expect(first != nil)
            pipe.cancel()
            pipe.sendNow(elements.1)
        }
        #expect(first == nil)
        #expect(second == nil)
        #expect(pipe.receive() == nil)
    }

    @Test func `accepts elements beyond its capacity from senders that must not wait`() throws {
        let pipe = Numbers(capacity: 1)
        for number in 0..<10 { pipe.sendNow(number) }
        let sending = try Running { try pipe.send(10) }
        for number in 0...10 { #expect(try pipe.receive() == number) }
        #expect(try sending.result())
    }
}

@Suite("PipeStage", .ownThread) struct PipeStageTests {
    @Test func `sends the result of its step for each element`() throws {
        let (numbers, texts) = (Numbers(capacity: 2), Pipe<String, Broken>(capacity: 2))
        let stage = try PipeStage(from: numbers, to: texts) { number throws(Broken) in "\(number)" }
        let sending = try Running {
            for number in 0..<100 { try numbers.send(number) }
            numbers.finish()
        }
        for number in 0..<100 { #expect(try texts.receive() == "\(number)") }
        #expect(try texts.receive() == nil)
        try sending.result()
        stage.join()
    }

    @Test func `ends both pipes after its last step`() throws {
        let (input, output) = (Numbers(capacity: 1), Numbers(capacity: 5))
        let stage = try PipeStage(from: input, to: output) { number throws(Broken) in number < 3 ? number : nil }
        let sending = try Running {
            while try input.send(1) {}
        }
        #expect(try output.receive() == 1)
        // Sends from another thread, because the other sender can fill the free capacity each time.
        let last = try Running { try input.send(3) }
        while try output.receive() != nil {}
        _ = try last.result()
        try sending.result()
        stage.join()
    }

    @Test func `passes an error of its step or of a pipe on to all pipes`() throws {
        for place in 0..<3 {
            let pipes = (0..<3).map { _ in Numbers(capacity: 1) }
            let stages = try (0..<2).map { stage in
                try PipeStage(from: pipes[stage], to: pipes[stage + 1]) { number throws(Broken) in
                    if stage == place, number == 50 { throw Broken(number: number) }
                    return number
                }
            }
            let sending = try Running {
                var number = 0
                while try pipes[0].send(number) { number += 1 }
            }
            var last = -1
            #expect(throws: Broken(number: 50)) {
                while let number = try pipes[2].receive() {
                    last = number
                    if place == 2, number == 49 { pipes[2].cancel(throwing: Broken(number: 50)) }
                }
            }
            #expect(last == 49)
            #expect(throws: Broken(number: 50)) { try sending.result() }
            for stage in stages { stage.join() }
        }
    }

    @Test func `ends when it is deinitialized although its input does not end`() throws {
        let (input, output) = (Numbers(capacity: 1), Numbers(capacity: 1))
        do {
            _ = try PipeStage(from: input, to: output) { number throws(Broken) in number }
        }
        #expect(try output.receive() == nil)
        #expect(try !input.send(1))
    }

    /// Tests a cycle of buffers, such as slabs and blocks: an error anywhere ends the cycle.
    @Test(arguments: 0..<40) func `limits the elements in use to the number of buffers`(seed: Int) throws {
        let buffers = 1 + seed % 5
        let failing: Int? = seed % 4 == 3 ? nil : seed % 4
        let empty = Numbers(capacity: buffers, holding: Array(0..<buffers))
        let (full, half) = (Numbers(capacity: buffers), Numbers(capacity: buffers))
        let under = Counter()
        let stages = try [(full, half), (half, empty)].enumerated().map { stage, pipes in
            let steps = Counter()
            return try PipeStage(from: pipes.0, to: pipes.1) { number throws(Broken) in
                var turns = Turns(seed * 10 + stage)
                turns.pass()
                if steps.add() == 40, stage == failing { throw Broken() }
                if stage == 1 { under.subtract() }
                return number
            }
        }
        var rounds = 0
        let round = Result { () throws in
            while rounds < 100, let buffer = try empty.receive() {
                #expect(under.add() <= buffers)
                rounds += 1
                try full.send(buffer)
            }
            full.finish()
            for stage in stages { stage.join() }
            while try empty.receive() != nil {}
        }
        if failing == 0 || failing == 1 {
            #expect(throws: Broken.self) { try round.get() }
            #expect((40...100).contains(rounds))
        } else {
            try round.get()
            #expect(rounds == 100)
            #expect(under.count == 0)
        }
    }
}

private final class Counter: Sendable {
    private let value = Atomic(0)

    var count: Int { value.load(ordering: .sequentiallyConsistent) }

    @discardableResult
    func add() -> Int { value.add(1, ordering: .sequentiallyConsistent).newValue }

    func subtract() { value.subtract(1, ordering: .sequentiallyConsistent) }
}
