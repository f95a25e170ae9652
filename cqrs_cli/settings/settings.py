"""Settings, highest first: flag, environment (`CQRS_…`), `cqrs.toml`, `[tool.cqrs]` in pyproject.toml, default."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.formatting import did_you_mean
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.payloads.address import THRESHOLD, PayloadStoreAddress
from cqrs_cli.settings import sources
from cqrs_cli.settings.durations import show_duration
from cqrs_cli.settings.java_properties import is_property_name, is_secret
from cqrs_cli.settings.sources import Source
from cqrs_cli.settings.values import (
    ClientProperties,
    Duration,
    Retention,
    Servers,
    StoreAddress,
    check_servers,
    flat_entries,
)
from cqrs_cli.storage.folder import check_folder


class Settings(BaseModel):
    """The settings of a project. Frozen; `load_settings` creates it, with the origin of each value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    root: Path
    bootstrap_server: Servers | None = Field(
        None,
        description="Kafka's address, HOST:PORT; several are separated by commas. "
        "Unset: the address in `command_config`, else the embedded broker.",
    )
    command_config: Path | None = Field(
        None, description="A file of Java client properties: TLS, logins, `bootstrap.servers`."
    )
    properties: ClientProperties = Field(
        {}, description="Single client properties, which override `command_config`; no secrets."
    )
    topic_prefix: str = Field(
        "", pattern=r"^[a-zA-Z0-9._-]{0,100}$", description="The prefix of all topic names."
    )
    partitions: int = Field(
        4, ge=1, le=10_000, description="The partition count of new topics. `cqrs repartition` can raise it."
    )
    partitioner: Literal["murmur2", "crc32", "none"] = Field(
        "murmur2",
        description="How senders hash keys: `murmur2` as Java's clients, `crc32` as librdkafka. "
        "With `none` owners do not check a command's partition.",
    )
    aggregates: str = Field(
        "aggregates", pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$", description="The package with the aggregates."
    )
    state_dir: Path = Field(  # relative to the root; absolute once loaded
        Path(".cqrs/state"),
        description="The folder of the shards, on a local disk; the default is in the project's root.",
    )
    store: Literal["lmdb", "memory"] = Field(
        "lmdb",
        description="`lmdb`: owners keep states in `state_dir`. `memory`: they keep states in memory, and fold the "
        "log at each start.",
    )
    store_limit: ByteSize = Field(
        ByteSize(1 << 30), ge=1 << 20, description='Memory limit of `store = "memory"` in each process.'
    )
    state_cache: ByteSize = Field(
        ByteSize(256 * 1024 * 1024),
        ge=1024 * 1024,
        description="Approximate memory for decoded states in each process, shared by its partitions.",
    )
    # A path is relative to the file that has the setting; it is absolute once it is loaded.
    checkpoint_location: str | None = Field(
        None,
        description="A folder, as a path or a URI (`s3://bucket/folder`), for checkpoints of shards: a new machine "
        "starts from the newest checkpoint and reads only the end of the log. Unset: no checkpoints.",
    )
    checkpoint_every: Duration = Field(
        timedelta(hours=1),
        ge=timedelta(seconds=1),
        description="How often `cqrs run` writes a checkpoint of each shard. It also writes checkpoints when it ends.",
    )
    checkpoints_kept: int = Field(2, ge=1, le=1000, description="Checkpoints kept of each partition.")
    dedup_window: Duration = Field(timedelta(hours=24), description="How long a command's id is remembered.")
    decide_timeout: Duration = Field(
        timedelta(seconds=60),
        description="How long `decide` may take for one command. Then the worker is killed, and the command fails.",
    )
    standby_timeout: Duration = Field(
        timedelta(seconds=2),
        ge=timedelta(milliseconds=500),
        description="How long the active run may send no heartbeat until a run with `--standby` takes over.",
    )
    max_attempts: int = Field(20, ge=1, le=1000, description="How often `decide` may defer one command.")
    max_clock_skew: Duration = Field(
        timedelta(minutes=1),
        description="How far an owner's clock may be ahead of the broker's. Deferred commands of owners further ahead "
        "are delayed.",
    )
    payload_store: StoreAddress | None = Field(
        None,
        description="The store of large payloads: a folder that all machines share, or a URI of an object store.",
    )
    payload_threshold: ByteSize = Field(
        ByteSize(THRESHOLD),
        ge=1024,
        description="Larger data is stored in `payload_store`, if this is set.",
    )
    keyring: str | None = Field(
        None,
        pattern=r"^(file|env|exec):\S",
        description="The keyring, which decrypts personal fields: `file:PATH`, `env:NAME` or `exec:COMMAND`.",
    )
    commands_retention: Duration = Field(
        timedelta(days=7), description="The retention of commands in new topics."
    )
    outcomes_retention: Retention = Field(
        None,
        description="The retention of outcomes, and of dead letters without personal fields: at least "
        "`commands_retention` plus two dedup windows.",
    )
    mcp_allow_send: bool = Field(False, description="Whether agents may send commands through `cqrs mcp`.")
    master: str = Field(
        "local[*]",
        pattern=r"^[^\x00-\x1f]+$",
        description="Spark's master; `local[*]`: all cores of this machine.",
    )

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)  # setting → the origin of its value

    @field_validator("properties")
    @classmethod
    def _check_client_properties(cls, properties: dict[str, str]) -> dict[str, str]:
        for name in properties:
            if not is_property_name(name):
                raise ValueError("one of the names is not a name of a client property")
            if is_secret(name):
                raise ValueError(
                    f"{name} is a secret: put it into a file, and name the file in command_config"
                )
            if name == "bootstrap.servers":
                raise ValueError("bootstrap.servers is the setting bootstrap_server")
        return properties

    @field_validator("checkpoint_location")
    @classmethod
    def _check_checkpoint_location(cls, uri: str | None, info: ValidationInfo) -> str | None:
        if uri is not None and info.data.get("store") == "memory":
            raise ValueError('with store = "memory" there are no shards to copy')
        if uri is not None:
            try:
                check_folder(uri)
            except ConfigurationError as error:
                raise ValueError(error.message) from None
        return uri

    @field_validator("outcomes_retention")
    @classmethod
    def _check_outcomes_retention(cls, retention: timedelta | None, info: ValidationInfo) -> timedelta | None:
        """Check the retention: to rebuild a shard, an owner reads outcomes from one dedup window before the oldest
        retained command.
        """
        if retention is not None and {"commands_retention", "dedup_window"} <= info.data.keys():
            minimum = info.data["commands_retention"] + 2 * info.data["dedup_window"]
            if retention < minimum:
                raise ValueError(
                    f"{show_duration(retention)} is shorter than commands_retention and two dedup windows "
                    f"together, {show_duration(minimum)}"
                )
        return retention

    def payloads(self) -> PayloadStoreAddress | None:
        """Return the address of the payload store, if there is one."""
        return (
            None
            if self.payload_store is None
            else PayloadStoreAddress(self.payload_store, self.payload_threshold)
        )

    def keys(self) -> KeyRingAddress | None:
        """Return the address of the keyring, if there is one."""
        return None if self.keyring is None else KeyRingAddress(self.keyring, self.root)

    def client_properties(self) -> dict[str, str]:
        """Return Kafka's client properties by their Java names: `command_config`, overridden by `properties`."""
        properties = sources.command_config(self.command_config) if self.command_config else {}
        properties.pop("bootstrap.servers", None)
        return {**properties, **self.properties}


def load_settings(flags: Mapping[str, object], cwd: Path | None = None) -> Settings:
    """Return the settings for the folder `cwd`. `flags` has the value of each setting's flag; None if
    it was not given. Its `properties` are the list of all -X flags.

    Raises `ConfigurationError` with the origin of an invalid value or unknown key; `UsageError` if it is from a flag.
    """
    cwd = cwd.absolute() if cwd is not None else _current_folder()
    root, files = sources.project_sources(cwd)
    names = set(Settings.model_fields) - {"root"}
    for source in files:
        _require_known(source, names)
    sources_by_priority = [sources.flag_source(flags, cwd), sources.environment_source(names, cwd), *files]
    values, value_origins = _merge_sources(sources_by_priority)
    try:
        settings = Settings(root=root, **values)
    except ValidationError as error:
        raise _first_error(error, sources_by_priority) from None
    if settings.bootstrap_server is None and settings.command_config is not None:
        server = _server_of(settings.command_config)
        settings = settings.model_copy(update={"bootstrap_server": server})
        value_origins["bootstrap_server"] = str(settings.command_config) if server else "default"
    settings = settings.model_copy(update={"state_dir": root / settings.state_dir})
    settings._origins.update({name: value_origins.get(name, "default") for name in names})
    return settings


def origins(settings: Settings) -> dict[str, str]:
    """Return the origin of the value of each setting."""
    return {name: settings._origins.get(name, "default") for name in Settings.model_fields if name != "root"}


def _merge_sources(sources_by_priority: list[Source]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return each setting's value from the highest source, and its origin. Client properties are merged one by one."""
    values: dict[str, Any] = {}
    value_origins: dict[str, str] = {}
    for source in reversed(sources_by_priority):
        for name, value in source.values.items():
            origin = source.origin(name)
            try:
                if name in ("command_config", "state_dir") and isinstance(value, (str, Path)):
                    value = sources.resolve_path(source.folder, value)
                elif name in ("checkpoint_location", "payload_store") and isinstance(value, str):
                    value = sources.resolve_store(source.folder, value)
                elif name == "properties" and isinstance(value, dict) and isinstance(values.get(name), dict):
                    value = {**dict(flat_entries("", values[name])), **dict(flat_entries("", value))}
                    origin = f"{origin}, {value_origins[name]}"
            except ValueError as error:
                raise source.error(f"{source.origin(name)}: {name}: {error}", "correct it") from None
            value_origins[name] = origin
            values[name] = value
    return values, value_origins


def _require_known(source: Source, names: set[str]) -> None:
    for name in source.values:
        if name not in names:
            hint = did_you_mean(name, names) or f"known: {', '.join(sorted(names))}"
            raise ConfigurationError(f"{source.origin(name)}: unknown setting {name!r}", hint)


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigurationError("the current folder was deleted", "change to a folder that exists") from None


def _first_error(error: ValidationError, sources_by_priority: list[Source]) -> Exception:
    """Return the error for the first invalid value, with its origin."""
    first_error = error.errors(include_url=False, include_input=False)[0]
    name = str(first_error["loc"][0])
    source = next((source for source in sources_by_priority if name in source.values), sources_by_priority[0])
    reason = str(first_error["msg"]).removeprefix("Value error, ")
    if name == "keyring" and first_error["type"] == "string_pattern_mismatch":
        reason = "not file:PATH, env:NAME or exec:COMMAND"
    default = Settings.model_fields[name].default
    default_text = show_duration(default) if isinstance(default, timedelta) else default
    hint = "change it there, or leave it out" + (f": the default is {default_text}" if default_text else "")
    return source.error(f"{source.origin(name)}: {name}: {reason}", hint)


def _server_of(command_config: Path) -> str | None:
    """Return `bootstrap.servers` from a file for Java clients; None if the file lacks it."""
    server = sources.command_config(command_config).get("bootstrap.servers")
    try:
        return check_servers(server) if server else None
    except ValueError as error:
        raise ConfigurationError(f"{command_config}: bootstrap.servers: {error}", "write HOST:PORT") from None
