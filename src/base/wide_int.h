// 128-bit integers for operation counts that must be exact before they become doubles.
#pragma once

namespace infercast {

__extension__ typedef __int128 Int128;

}  // namespace infercast
