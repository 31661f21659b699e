/// A name that no other attempt uses: `prefix` and 64 random bits in hex.
package func randomName(_ prefix: String) -> String {
    let digits = String(UInt64.random(in: .min ... .max), radix: 16)
    return prefix + String(repeating: "0", count: 16 - digits.count) + digits
}
