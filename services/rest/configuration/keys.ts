/**
 * Every configuration key in one table: name, type, default and description. The keys of PostgREST 14 keep their names,
 * defaults and older names (its docs, "List of parameters"). The other keys are additional.
 */
import { key, Open, optional } from '../../configuration/declaration.ts'
import * as values from '../../configuration/values.ts'
import { isBatchPath } from '../batch/path.ts'
import { isKeysetParameter } from '../keyset/parameter.ts'
import { parseRoleLimits } from '../limits/role-limits.ts'

const fromDatabase = { inDatabase: true }

/** The user chooses the name. It is lower case, like Postgres's settings. */
const appSettings = new Open(
  values.text(`must be at most ${values.MAX_VALUE_LENGTH} characters without NUL`, text => !text.includes('\0')),
  {
    form: /^(?=.{1,200}$)[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*$/,
    rule: 'must be a name that Postgres accepts: letters, digits and underscores',
    variable: 'APP_SETTINGS_',
    fromFile: text => text.toLowerCase(),
    fromVariable: text => text.toLowerCase(),
    most: 1_000,
  },
)

export const keys = {
  'app.settings': appSettings,
  'admin-server-config-enabled': key(
    values.truth(),
    false,
    'Whether the admin server shows the configuration, at /config.',
  ),
  'admin-server-host': optional(values.listenHost(), 'Address of the admin server; default: server-host.'),
  'admin-server-port': optional(
    values.integer(0, 65_535),
    'Port of the admin server; 0 selects a free port. If not set, the admin server does not listen on a port.',
  ),
  'admin-server-unix-socket': optional(
    values.socketPath(),
    'Unix socket of the admin server, instead of admin-server-port.',
  ),
  'admin-server-unix-socket-mode': key(values.mode(), '660', 'Mode of admin-server-unix-socket, in octal.'),
  'batch-max-requests': key(values.integer(1, 1_000), 100, 'Maximum requests of a batch.', fromDatabase),
  'batch-path': optional(
    values.text('must be a path like /batch, of letters, digits, -, ., _ and ~, and not under /rpc', isBatchPath),
    'Path that accepts several requests to run in one transaction; disabled if not set.',
    fromDatabase,
  ),
  'client-error-verbosity': key(
    values.choice('verbose', 'minimal'),
    'verbose',
    'Whether errors contain details and hint.',
    fromDatabase,
  ),
  'db-aggregates-enabled': key(values.truth(), false, 'Whether requests may use aggregate functions.', fromDatabase),
  'db-anon-role': optional(
    values.name(),
    'Role of requests without a token. If not set, these requests are refused.',
    fromDatabase,
  ),
  'db-channel': key(
    values.name(),
    'pgrst',
    'Channel whose notifications reload the schema cache or the configuration.',
  ),
  'db-channel-enabled': key(values.truth(), true, 'Whether to listen on db-channel.'),
  'db-config': key(values.truth(), true, 'Whether the database may set keys.'),
  'db-extra-search-path': key(
    values.names(),
    'public',
    'Schemas that follow the exposed schema in the search_path of a request. They are not exposed.',
    fromDatabase,
  ),
  'db-hoisted-tx-settings': key(
    values.names(),
    'statement_timeout, plan_filter.statement_cost_limit, default_transaction_isolation',
    'Settings of a function that apply to the full transaction of its call.',
    fromDatabase,
  ),
  'db-max-rows': optional(
    values.integer(0, 2_147_483_647),
    'Maximum rows of a response; no limit if not set.',
    fromDatabase,
    { aliases: ['max-rows'] },
  ),
  'db-plan-enabled': key(values.truth(), false, 'Whether requests may return their execution plan.', fromDatabase),
  'db-pool': key(values.integer(1, 1_000), 10, 'Maximum connections to the database, over all workers.'),
  'db-pool-acquisition-timeout': key(values.seconds(), 10, 'Seconds a request waits for a connection.'),
  'db-pool-automatic-recovery': key(
    values.truth(),
    true,
    'Whether a lost connection is retried; otherwise the server exits.',
  ),
  'db-pool-max-idletime': key(values.seconds(), 30, 'Seconds after which an idle connection is closed.', {
    aliases: ['db-pool-timeout'],
  }),
  'db-pool-max-lifetime': key(values.seconds(), 1_800, 'Seconds after which a connection is replaced.'),
  'db-pre-config': optional(values.functionName(), 'Database function that sets configuration keys.', fromDatabase),
  'db-pre-request': optional(
    values.functionName(),
    'Function called in each transaction before the query.',
    fromDatabase,
    { aliases: ['pre-request'] },
  ),
  'db-prepared-statements': key(
    values.truth(),
    true,
    'Whether statements are prepared; set false behind a pooler in transaction mode.',
    fromDatabase,
  ),
  'db-root-spec': optional(
    values.functionName(),
    'Function called for the root path, instead of returning the OpenAPI document.',
    fromDatabase,
    { aliases: ['root-spec'] },
  ),
  'db-schema-watch-interval': key(
    values.integer(0, 3_600),
    0,
    'Seconds between checks for schema changes, over the connection of db-channel; 0: only notifications reload the schema cache.',
  ),
  'db-schemas': key(values.servedSchemas(), 'public', 'Exposed schemas; the first is the default one.', fromDatabase, {
    aliases: ['db-schema'],
  }),
  'db-timezone-enabled': key(values.truth(), true, 'Whether requests may choose their time zone.', fromDatabase),
  'db-timezone-unchecked': key(
    values.truth(),
    false,
    'Whether Postgres, not the service, checks the time zone of a request. A request may then use an offset, and an invalid time zone is an error.',
    fromDatabase,
  ),
  'db-tx-end': key(
    values.choice('commit', 'commit-allow-override', 'rollback', 'rollback-allow-override'),
    'commit',
    'How transactions end, and whether a request may choose the end.',
    fromDatabase,
  ),
  'db-uri': key(
    values.connection(),
    'postgresql://',
    "Connection string; libpq's environment variables supply missing parts.",
    { file: '@' },
  ),
  'jwt-aud': optional(values.audience(), 'Required audience of tokens; any if not set.', fromDatabase),
  'jwt-cache-max-entries': key(
    values.integer(0, 1_000_000),
    1_000,
    'Maximum cached verified tokens; 0: none.',
    fromDatabase,
  ),
  'jwt-role-claim-key': key(values.secret(), '.role', 'Path to the role in the claims of a token.', fromDatabase, {
    aliases: ['role-claim-key'],
  }),
  'jwt-secret': optional(
    values.secret(),
    'Passphrase of at least 32 characters, JSON Web Key or key set; tokens are refused if not set.',
    fromDatabase,
    { file: '@', isSecret: true },
  ),
  'jwt-secret-is-base64': key(values.truth(), false, 'Whether jwt-secret is written in Base64.', fromDatabase, {
    aliases: ['secret-is-base64'],
  }),
  'keyset-parameter': optional(
    values.text(
      "must be a name of letters, digits, - and _, and none of PostgREST's own parameters",
      isKeysetParameter,
    ),
    'Query parameter of cursors for keyset pagination; disabled if not set.',
    fromDatabase,
  ),
  'log-level': key(
    values.choice('crit', 'error', 'warn', 'info', 'debug'),
    'error',
    'Minimum level of log messages, from crit (fewest) to debug (all).',
  ),
  'log-refusals': key(
    values.truth(),
    false,
    'Whether the log names the missing grant or the RLS policies if Postgres refuses a request (42501). This needs one more query.',
    fromDatabase,
  ),
  'log-query': key(values.truth(), false, 'Whether the SQL of requests is logged.'),
  'ndjson-enabled': key(
    values.truth(),
    false,
    'Whether rows are available as lines of JSON (application/x-ndjson).',
    fromDatabase,
  ),
  'openapi-mode': key(
    values.choice('follow-privileges', 'ignore-privileges', 'disabled'),
    'follow-privileges',
    'Content of the OpenAPI document at the root.',
    fromDatabase,
  ),
  'openapi-3-1-enabled': key(values.truth(), false, 'Whether the root returns OpenAPI 3.1 on request.', fromDatabase),
  'openapi-typescript-enabled': key(
    values.truth(),
    false,
    'Whether the root returns TypeScript types of the schemas on request.',
    fromDatabase,
  ),
  'openapi-security-active': key(
    values.truth(),
    false,
    'Whether the OpenAPI document declares that requests need a token.',
    fromDatabase,
  ),
  'openapi-server-proxy-uri': optional(values.httpUri(), "The server's URL in the OpenAPI document.", fromDatabase),
  'role-limits': optional(
    values.text(
      'must be roles with limits and commas between them, like "web_anon rows=1000 cost=50000 concurrency=20, * rows=10000"',
      text => parseRoleLimits(text) !== undefined,
    ),
    'Maximum rows, planned cost and concurrent requests of each role; no limits if not set.',
    fromDatabase,
  ),
  'server-cors-allowed-origins': optional(
    values.origins(),
    'Origins whose pages may send requests; all if not set.',
    fromDatabase,
  ),
  'server-etag-enabled': key(
    values.truth(),
    false,
    'Whether GET responses have an ETag, and If-None-Match is supported; such responses are not streamed.',
    fromDatabase,
  ),
  'server-host': key(
    values.listenHost(),
    '!4',
    'Address of the server, or * or *6 (IPv4 and IPv6), *4 or !4 (only IPv4), !6 (only IPv6).',
  ),
  'server-max-body-bytes': key(values.integer(1_024, 1_073_741_824), 10_485_760, 'Maximum bytes of a request body.'),
  'server-max-header-bytes': key(values.integer(1_024, 1_048_576), 65_536, "Maximum bytes of a request's head."),
  'server-max-held-bytes': optional(
    values.integer(1_048_576, 1_099_511_627_776),
    "Maximum bytes of bodies in a worker's memory; default: 256 MiB or 4 times server-max-body-bytes, whichever is more.",
  ),
  'server-port': key(values.integer(0, 65_535), 3_000, 'Port of the server; 0 selects a free port.'),
  'server-reuseport': key(
    values.truth(),
    false,
    'Whether other processes of the same user may also listen on server-port if they set this key (SO_REUSEPORT).',
  ),
  'server-timing-enabled': key(
    values.truth(),
    false,
    'Whether responses contain timings (Server-Timing).',
    fromDatabase,
  ),
  'server-trace-header': optional(values.headerName(), 'Header of a request that its response repeats.', fromDatabase),
  'server-unix-socket': optional(values.socketPath(), 'Unix socket to listen on, instead of server-port.'),
  'server-unix-socket-mode': key(values.mode(), '660', 'Mode of server-unix-socket, in octal.'),
  'server-workers': key(values.integer(1, 256), 1, 'Worker processes; each has its share of db-pool.'),
  'url-use-legacy-target-names': optional(
    values.truth(),
    "Whether a query string may use the relation's name for an aliased embedding. true: yes, with a warning; false: no, an error; not set: yes.",
    fromDatabase,
  ),
}
