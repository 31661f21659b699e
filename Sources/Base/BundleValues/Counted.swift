/// A number with the noun that agrees with it, such as "1 file" and "2 files". `plural` is for nouns that take more than an "s".
package func counted(_ count: Int, _ noun: String, _ plural: String? = nil) -> String {
    "\(count) \(count == 1 ? noun : plural ?? noun + "s")"
}
