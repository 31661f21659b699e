import CLibrary

/// A bounded queue between threads. Senders wait while it is full, and receivers wait while it is empty.
///
/// It holds at most `capacity` elements, plus those of `sendNow`, which its caller has to limit. Either side can end it,
/// with or without an error, and wakes the other side. A second pipe can return buffers for reuse, so that their number
/// limits the memory.
///
/// Unchecked Sendable: a lock guards the state.
package final class Pipe<Element: Sendable, Failure: Error>: @unchecked Sendable {
    private enum PipeEnd {
        case finished
        case failed(Failure)
    }

    private struct PipeState {
        var elements: [Element]
        var end: PipeEnd?
    }

    private let capacity: Int
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    /// Signaled when the state changes.
    private let change: UnsafeMutablePointer<pthread_cond_t>
    private var state: PipeState

    /// Creates a pipe for at least one element. `elements` are its first content.
    package init(capacity: Int, holding elements: [Element] = []) {
        self.capacity = max(1, capacity, elements.count)
        state = PipeState(elements: elements)
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

    /// Sends an element, and waits while the pipe is full. Returns false if the other side ended the pipe, and throws its
    /// error.
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

    /// Sends an element without waiting, even if the pipe is full. For callers that must not block.
    package func sendNow(_ element: Element) {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        if state.end != nil { return }
        state.elements.append(element)
        pthread_cond_broadcast(change)
    }

    /// Ends the pipe after the elements already sent. The receiver then gets nil or `failure`.
    package func finish(throwing failure: Failure? = nil) { end(failure, dropping: false) }

    // MARK: The receiving side

    /// Returns the next element, and waits while the pipe is empty. Returns nil at the end, or throws the sender's error.
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

    /// Ends the pipe at once and drops its elements. Senders then get false or `failure`.
    package func cancel(throwing failure: Failure? = nil) { end(failure, dropping: true) }

    /// The first end wins.
    private func end(_ failure: Failure?, dropping: Bool) {
        pthread_mutex_lock(lock)
        // Deinitializes the dropped elements outside the lock.
        let dropped = dropping ? state.elements : []
        if dropping { state.elements = [] }
        if state.end == nil { state.end = failure.map { .failed($0) } ?? .finished }
        pthread_cond_broadcast(change)
        pthread_mutex_unlock(lock)
        withExtendedLifetime(dropped) {}
    }
}

/// A thread that processes the elements of a pipe in order.
package final class PipeStage: Sendable {
    private let thread: BlockingThread
    private let stop: @Sendable () -> Void

    /// Starts a thread that sends the result of `step` for each element of `input` to `output`. It ends both pipes if
    /// `step` returns nil or throws, or if either pipe ends.
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

    /// Waits until the thread ends.
    package func join() { thread.join() }
}
