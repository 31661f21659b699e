import Glibc

/// A bounded queue between threads: whoever sends waits while it is full, whoever receives while it is empty.
///
/// It holds at most `capacity` elements, and beside them what `sendNow` adds, which its caller bounds. Either side may end it, with an
/// error or without, and wakes the other one. Where buffers go round, a second pipe takes them back, and their number is the bound.
///
/// Sendable, unchecked: the state is used under the lock only.
package final class Pipe<Element: Sendable, Failure: Error>: @unchecked Sendable {
    private enum End {
        case finished
        case failed(Failure)
    }

    private struct State {
        var elements: [Element]
        var end: End?
    }

    private let capacity: Int
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    /// Something has changed that another thread may wait for.
    private let change: UnsafeMutablePointer<pthread_cond_t>
    private var state: State

    /// A pipe for `capacity` elements, at least one, that holds `elements` at first.
    package init(capacity: Int, holding elements: [Element] = []) {
        self.capacity = max(1, capacity, elements.count)
        state = State(elements: elements)
        lock = .allocate(capacity: 1)
        lock.initialize(to: pthread_mutex_t())
        pthread_mutex_init(lock, nil)
        change = .allocate(capacity: 1)
        change.initialize(to: pthread_cond_t())
        pthread_cond_init(change, nil)
    }

    deinit {
        pthread_cond_destroy(change)
        change.deallocate()
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }

    // MARK: The sending side

    /// Hands over `element`, as soon as there is room. Throws the error with which the other side has ended the pipe; false where it
    /// was ended without one.
    @discardableResult
    package func send(_ element: Element) throws(Failure) -> Bool {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while state.end == nil, state.elements.count >= capacity { pthread_cond_wait(change, lock) }
        switch state.end {
        case .failed(let failure): throw failure
        case .finished: return false
        case nil: break
        }
        state.elements.append(element)
        pthread_cond_broadcast(change)
        return true
    }

    /// Hands over `element` without waiting, also beyond the capacity: for callers that must not block.
    package func sendNow(_ element: Element) {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        if state.end != nil { return }
        state.elements.append(element)
        pthread_cond_broadcast(change)
    }

    /// Ends the pipe behind what was sent: it is received before the end, or `failure`.
    package func finish(throwing failure: Failure? = nil) { end(failure, dropping: false) }

    // MARK: The receiving side

    /// The next element, as soon as there is one; nil at the end. Throws the error with which the pipe was ended.
    package func receive() throws(Failure) -> Element? {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        while state.end == nil, state.elements.isEmpty { pthread_cond_wait(change, lock) }
        if !state.elements.isEmpty {
            let element = state.elements.removeFirst()
            pthread_cond_broadcast(change)
            return element
        }
        if case .failed(let failure) = state.end { throw failure }
        return nil
    }

    /// Ends the pipe at once and drops what is in it: nobody waits for it any more.
    package func cancel(throwing failure: Failure? = nil) { end(failure, dropping: true) }

    /// The first end counts.
    private func end(_ failure: Failure?, dropping: Bool) {
        pthread_mutex_lock(lock)
        // They are let go of behind the lock.
        let dropped = dropping ? state.elements : []
        if dropping { state.elements = [] }
        if state.end == nil { state.end = failure.map { .failed($0) } ?? .finished }
        pthread_cond_broadcast(change)
        pthread_mutex_unlock(lock)
        withExtendedLifetime(dropped) {}
    }
}

/// A thread that does one step with each element of a pipe, in order.
package final class PipeStage: Sendable {
    private let thread: BlockingThread
    private let stop: @Sendable () -> Void

    /// Starts a thread that sends on what `step` makes of each element of `input`; with the first nil it ends both pipes, with the
    /// end of either one the other, and with an error both.
    package init<Element, Product, Failure>(
        from input: Pipe<Element, Failure>, to output: Pipe<Product, Failure>,
        _ step: @escaping @Sendable (Element) throws(Failure) -> Product?
    ) throws(ThreadFailure) {
        stop = { input.cancel() }
        thread = try BlockingThread {
            do throws(Failure) {
                while let element = try input.receive(), let product = try step(element), try output.send(product) {}
                input.cancel()
                output.finish()
            } catch {
                input.cancel(throwing: error)
                output.finish(throwing: error)
            }
        }
    }

    deinit {
        stop()
        thread.join()
    }

    /// Waits until the thread has come to its end.
    package func join() { thread.join() }
}
