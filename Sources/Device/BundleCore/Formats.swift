// Shells import one module for the rules of a device and for the values that its feed and its settings consist of.
@_exported public import BundleFormats
