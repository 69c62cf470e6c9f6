// Decimal rounding. Two rules are in use and they differ on ties: table rounding (scale, round half
// to even, unscale) and correct rounding of the exact binary value.
#pragma once

namespace infercast {

// rint(v * 10^digits) / 10^digits.
double RoundTable(double value, int digits);
// The double nearest to the exact value of `value` rounded to `digits` decimals.
double RoundDecimal(double value, int digits);

}  // namespace infercast
