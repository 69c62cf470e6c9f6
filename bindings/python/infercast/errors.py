"""One exception class for each kind of error, all of them subclasses of InfercastError.

    try:
        infercast.estimate(model="Qwen/Qwen3-32B", system="h200_sxm", batch_size=100000)
    except infercast.errors.DoesNotFitError as error:
        print(error.kind, error)
"""


class InfercastError(Exception):
    """Any error of Infercast. `kind` is its stable snake_case name."""

    kind = "internal"


class DataError(InfercastError):
    """The measured data is not there, unreadable or damaged."""


class NotMeasuredError(InfercastError):
    """Nothing was measured, or can be estimated, for what was asked."""


class ConfigurationError(InfercastError, ValueError):
    """What was asked for is wrong or impossible."""


class PerfDatabaseError(NotMeasuredError):
    """A table, slice or measurement is missing."""

    kind = "perf_database"


class MissingSystemFlopsError(NotMeasuredError):
    """The GPU has no rate for the number format."""

    kind = "missing_system_flops"


class EmpiricalNotImplementedError(NotMeasuredError):
    """There is nothing to calibrate an estimate from."""

    kind = "empirical_not_implemented"


class SolNotImplementedError(NotMeasuredError):
    """There is no speed-of-light figure for an operator."""

    kind = "sol_not_implemented"


class FileError(DataError, OSError):
    """A file cannot be opened or read."""

    kind = "io"


class ParquetError(DataError):
    """A Parquet file cannot be decoded or has the wrong schema."""

    kind = "parquet"


class YamlError(DataError):
    """A yaml file is malformed or lacks a required key."""

    kind = "yaml"


class CorruptDataError(DataError):
    """A file exists but its content is damaged."""

    kind = "corrupt_data"


class DataRootError(DataError):
    """The measured data has not been fetched (`infercast data fetch`), or its folder is wrong."""

    kind = "data_root"


class NetworkError(DataError):
    """The network failed."""

    kind = "network"


class InvalidEngineConfigError(ConfigurationError):
    kind = "invalid_engine_config"


class UnsupportedSchemaVersionError(ConfigurationError):
    kind = "unsupported_schema_version"


class EngineSpecError(ConfigurationError):
    """An engine description cannot be decoded."""

    kind = "engine_spec"


class InvalidForwardPassMetricsError(ConfigurationError):
    """A record of a forward pass contradicts itself."""

    kind = "invalid_forward_pass_metrics"


class UnsupportedModelError(ConfigurationError):
    """No family builds this model, or not in this layout."""

    kind = "unsupported_model"


class ModelConfigError(ConfigurationError):
    """A checkpoint's configuration lacks something or is malformed."""

    kind = "model_config"


class InvalidArgumentError(ConfigurationError):
    """A value is outside of its domain."""

    kind = "invalid_argument"


class UnknownNameError(ConfigurationError, LookupError):
    """An unknown model, system, backend, version, number format or setting."""

    kind = "unknown_name"


class BadModelConfigError(ConfigurationError):
    kind = "bad_model_config"


class IncompatibleMemoryFractionError(ConfigurationError):
    kind = "incompatible_memory_fraction"


class InsufficientModelMetadataError(ConfigurationError):
    kind = "insufficient_model_metadata"


class UsageError(ConfigurationError):
    kind = "usage"


class NoKvBudgetError(InfercastError):
    """Weights and activations leave no room for a KV cache."""

    kind = "no_kv_budget"


class DoesNotFitError(InfercastError):
    """It does not fit in GPU memory."""

    kind = "does_not_fit"


class NoFeasibleConfigError(InfercastError):
    """No configuration meets the target."""

    kind = "no_feasible_config"


class InterruptedRunError(InfercastError):
    kind = "interrupted"


def _all(cls):
    for sub in cls.__subclasses__():
        yield sub
        yield from _all(sub)


_BY_KIND = {cls.kind: cls for cls in _all(InfercastError) if "kind" in vars(cls)}


def of_kind(kind: str) -> type[InfercastError]:
    """The class of a kind; InfercastError itself for one without a class of its own."""
    return _BY_KIND.get(kind, InfercastError)
