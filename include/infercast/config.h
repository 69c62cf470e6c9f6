// Visibility and version of the C++ interface.
//
// Everything public lives in namespace `infercast`, in its inline namespace `v1`: programs write
// infercast::Engine, and the symbols of a later, incompatible interface will have other names.
#pragma once

#if defined(__GNUC__)
#define INFERCAST_API __attribute__((visibility("default")))
#else
#define INFERCAST_API
#endif

// The library's own sources open the namespace by its full name, because they have an inner
// infercast::Engine and so on beside the public ones.
#ifdef INFERCAST_WITHIN_LIBRARY
#define INFERCAST_INLINE
#else
#define INFERCAST_INLINE inline
#endif

namespace infercast {
INFERCAST_INLINE namespace v1 {
// Version of the library, e.g. "0.1.0".
INFERCAST_API const char* Version();

}  // namespace v1
}  // namespace infercast
