package import NIOCore
import NIOPosix

/// The thread of all sockets of this process. It never ends.
package enum SocketLoop {
    package static let loop: any EventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()

    /// Starts small, because most sockets are silent, and stays small enough to avoid reading far ahead.
    package static var receiving: AdaptiveRecvByteBufferAllocator {
        AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1024, maximum: 16 << 10)
    }
}
