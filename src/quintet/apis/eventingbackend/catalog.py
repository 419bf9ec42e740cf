"""The catalog: every option of `spec.config`, per backend type.

Validation, defaults, discovery, JSON Schema and documentation all read this table, so they cannot
disagree. A new backend type is one entry here and one driver beside the controller. `values` parses
values by their data type.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quintet.apis.eventingbackend.keys import LARGEST_NUMBER, BackendType, DataType, Key, Pattern

_TOKENS = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
_HOST = r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
_PORT = (
    r"(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"  # to 65535
)
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"

NATS_URL: Final = Pattern(
    f"^(nats|tls)://{_HOST}{_PORT}/?$",
    "must be an address such as nats://nats.example.com:4222 or tls://nats.example.com, without user and "
    "password; those belong in the Secret that credentialsSecretRef names",
)
STREAM_NAME: Final = Pattern("^[A-Za-z0-9_-]+$", "must hold only letters, digits, '-' and '_'")
SUBJECT: Final = Pattern(_TOKENS, "must be words of letters, digits, '-' and '_', joined by single dots")
STATUSES: Final = Pattern(
    "^([3-5][0-9][0-9](,[3-5][0-9][0-9])*|none)$",
    "must be statuses from 300 to 599, joined by commas, such as 400,422; or none",
)
SECRET_NAME: Final = Pattern(
    rf"^{_LABEL}(\.{_LABEL})*$", "must be the name of a Secret in the namespace of the backend"
)
DNS_NAME: Final = Pattern(rf"^{_LABEL}(\.{_LABEL})+$", "must be a DNS name such as events.example.com")

_EVENT_TYPE_PREFIX = Key(
    name="eventTypePrefix",
    description="Types of events that begin with it are taken as complete; it is left out of what sinks see.",
    data_type=DataType.STRING,
    default="sap.kyma.custom",
    required=True,
    longest=128,
    pattern=SUBJECT,
)
_PUBLISHER = (
    Key(
        name="publisherReplicas",
        description="How many pods take in events.",
        data_type=DataType.INT,
        default=2,
        minimum=1,
        maximum=10,
    ),
    Key(
        name="publisherRequestTimeout",
        description="How long a publisher waits for the backend to acknowledge an event.",
        data_type=DataType.DURATION,
        default="5s",
        minimum="100ms",
        maximum="5m",
    ),
)

_CONNECTION = (
    Key(
        name="url",
        description="The NATS server to use, as nats://host:port or tls://host:port. Left out, a NATS "
        "server with JetStream is run for this backend.",
        data_type=DataType.STRING,
        longest=512,
        pattern=NATS_URL,
    ),
    Key(
        name="credentialsSecretRef",
        description="The name of the Secret, in the same namespace, with which to log in to the server.",
        data_type=DataType.STRING,
        longest=253,
        pattern=SECRET_NAME,
        names_secret=True,
    ),
    Key(
        name="maxReconnects",
        description="How often a lost connection is tried again before the pod gives up and is restarted; "
        "-1: without end.",
        data_type=DataType.INT,
        default=-1,
        minimum=-1,
        maximum=1_000_000,
    ),
    Key(
        name="reconnectWait",
        description="How long to wait between two attempts to connect.",
        data_type=DataType.DURATION,
        default="3s",
        minimum="100ms",
        maximum="5m",
    ),
)
_STREAM = (
    Key(
        name="streamName",
        description="The JetStream stream that keeps the events.",
        data_type=DataType.STRING,
        default="sap",
        required=True,
        longest=32,
        pattern=STREAM_NAME,
    ),
    Key(
        name="streamSubjectPrefix",
        description="The first part of every subject in the stream.",
        data_type=DataType.STRING,
        default="kyma",
        required=True,
        longest=64,
        pattern=SUBJECT,
    ),
    Key(
        name="streamStorageType",
        description="Where the stream keeps events: on disk, or in memory, where a restart loses them.",
        data_type=DataType.STRING,
        default="file",
        allowed=("file", "memory"),
    ),
    Key(
        name="streamReplicas",
        description="On how many NATS servers each event is kept. The cluster must have as many.",
        data_type=DataType.INT,
        default=1,
        minimum=1,
        maximum=5,
    ),
    Key(
        name="retentionPolicy",
        description="With interest, an event goes when every subscription has it; with limits, it stays "
        "until a limit of the stream is reached.",
        data_type=DataType.STRING,
        default="interest",
        allowed=("interest", "limits"),
    ),
    Key(
        name="discardPolicy",
        description="When the stream is full: new refuses new events, old drops the oldest.",
        data_type=DataType.STRING,
        default="new",
        allowed=("new", "old"),
    ),
    Key(
        name="maxMessages",
        description="The most events in the stream; -1 or 0: no such limit.",
        data_type=DataType.INT,
        default=-1,
        minimum=-1,
        maximum=LARGEST_NUMBER,
    ),
    Key(
        name="maxBytes",
        description="The most bytes in the stream, such as 700Mi; -1 or 0: no such limit.",
        data_type=DataType.QUANTITY,
        default="700Mi",
        minimum="-1",
        maximum="1Pi",
    ),
    Key(
        name="maxMessagesPerSubject",
        description="The most events of one subject in the stream; -1 or 0: no such limit.",
        data_type=DataType.INT,
        default=1_000_000,
        minimum=-1,
        maximum=LARGEST_NUMBER,
    ),
)
_DELIVERY = (
    Key(
        name="maxInFlightMessages",
        description="How many events may be under way to one subscription at a time.",
        data_type=DataType.INT,
        default=10,
        minimum=1,
        maximum=10_000,
    ),
    Key(
        name="consumerDeliverPolicy",
        description="Which events a new subscription gets: all that are kept, the last one, the last one "
        "of each subject, or only new ones.",
        data_type=DataType.STRING,
        default="new",
        allowed=("all", "last", "last_per_subject", "new"),
    ),
    Key(
        name="dispatcherReplicas",
        description="How many pods deliver events.",
        data_type=DataType.INT,
        default=2,
        minimum=1,
        maximum=10,
    ),
    Key(
        name="deliveryAttempts",
        description="How often the delivery of an event is tried.",
        data_type=DataType.INT,
        default=64,
        minimum=1,
        maximum=10_000,
    ),
    Key(
        name="deliveryTimeout",
        description="How long a sink may take to respond.",
        data_type=DataType.DURATION,
        default="1m",
        minimum="100ms",
        maximum="10m",
    ),
    Key(
        name="deliveryMinBackoff",
        description="How long an event waits after the first attempt.",
        data_type=DataType.DURATION,
        default="500ms",
        minimum="10ms",
        maximum="1h",
    ),
    Key(
        name="deliveryMaxBackoff",
        description="The longest wait between two attempts, also if deliveryMinBackoff is longer.",
        data_type=DataType.DURATION,
        default="1m",
        minimum="10ms",
        maximum="24h",
    ),
    Key(
        name="deliveryBackoffFactor",
        description="How many times longer each wait is than the one before.",
        data_type=DataType.INT,
        default=2,
        minimum=1,
        maximum=10,
    ),
    Key(
        name="deliveryRetryAfterMax",
        description="How long an event waits at most if the sink asks for it by Retry-After; 0s: the header "
        "is ignored.",
        data_type=DataType.DURATION,
        default="10m",
        minimum="0s",
        maximum="24h",
    ),
    Key(
        name="deliveryPermanentStatuses",
        description="The statuses after which an event is not tried again; none: every event is.",
        data_type=DataType.STRING,
        default="400,410,413,415,422,431",
        longest=127,
        pattern=STATUSES,
    ),
    Key(
        name="deadLetters",
        description="Whether events that could not be delivered are kept or dropped.",
        data_type=DataType.STRING,
        default="keep",
        allowed=("keep", "drop"),
    ),
    Key(
        name="deadLetterSubject",
        description="Where an event goes that could not be delivered at the last try. It must not be "
        "under streamSubjectPrefix, or such an event would be delivered again.",
        data_type=DataType.STRING,
        derived="dead-letter.{streamName}",
        longest=128,
        pattern=SUBJECT,
        outside="streamSubjectPrefix",
    ),
    Key(
        name="deadLetterMaxAge",
        description="How long a dead letter is kept.",
        data_type=DataType.DURATION,
        default="168h",
        minimum="1h",
        maximum="8760h",
    ),
    Key(
        name="deadLetterMaxBytes",
        description="The most bytes of dead letters of all subscriptions; above that the oldest are deleted.",
        data_type=DataType.QUANTITY,
        default="128Mi",
        minimum="1Mi",
        maximum="1Pi",
    ),
)

NATS: Final = BackendType(
    "nats",
    "Events in a JetStream stream of a NATS server.",
    (*_CONNECTION, *_STREAM, _EVENT_TYPE_PREFIX, *_DELIVERY, *_PUBLISHER),
)
BEB: Final = BackendType(
    "beb",
    "Events in SAP Event Mesh, formerly Business Event Bus.",
    (
        Key(
            name="secretRef",
            description="The name of the Secret, in the same namespace, with the service key of Event Mesh "
            "under the keys messaging and namespace.",
            data_type=DataType.STRING,
            required=True,
            longest=253,
            pattern=SECRET_NAME,
            names_secret=True,
        ),
        Key(
            name="domain",
            description="The DNS name under which Event Mesh reaches the cluster.",
            data_type=DataType.STRING,
            longest=253,
            pattern=DNS_NAME,
        ),
        Key(
            name="qos",
            description="Whether an event may come twice or may be lost.",
            data_type=DataType.STRING,
            default="AT_LEAST_ONCE",
            allowed=("AT_LEAST_ONCE", "AT_MOST_ONCE"),
        ),
        _EVENT_TYPE_PREFIX,
        Key(
            name="webhookActivationTimeout",
            description="How long Event Mesh may take to confirm that it reaches a subscription.",
            data_type=DataType.DURATION,
            default="60s",
            minimum="1s",
            maximum="1h",
        ),
        *_PUBLISHER,
    ),
)

Catalog = Mapping[str, BackendType]
CATALOG: Final[Catalog] = MappingProxyType({backend.name: backend for backend in (NATS, BEB)})
"""All backend types by name."""
