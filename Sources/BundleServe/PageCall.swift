/// A call of a page whose body has yet to come.
struct PageCall {
    static let longestBody = 64 << 10

    let method: String
    let token: String
    let length: Int
}
