// The whole C++ interface.
#pragma once

#include "infercast/config.h"
#include "infercast/database.h"
#include "infercast/engine.h"
#include "infercast/error.h"
#include "infercast/forecast.h"
#include "infercast/memory.h"
#include "infercast/model_options.h"
#include "infercast/named_options.h"
#include "infercast/online.h"
#include "infercast/spec.h"
