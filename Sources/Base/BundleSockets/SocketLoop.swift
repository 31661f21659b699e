import NIOCore
import NIOPosix

/// The one thread of this process on which sockets are worked, and which never ends.
enum SocketLoop {
    static let loop: any EventLoop = MultiThreadedEventLoopGroup(numberOfThreads: 1).next()

    /// Small at first, since most sockets are silent most of the time, and never so large that much is read ahead.
    static var receiving: AdaptiveRecvByteBufferAllocator {
        AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1024, maximum: 16 << 10)
    }
}
