/**
 * Every key of the configuration, in one table: its name, what it takes, its default, and what it means.
 * Names, defaults and older names are PostgREST 14's (its docs, "List of parameters"); client-error-verbosity,
 * server-workers and the limits on requests are our own.
 */
import { key, Open, optional } from '../../configuration/declaration.ts'
import * as values from '../../configuration/values.ts'
import { isBatchPath } from '../batch/path.ts'
import { isKeysetParameter } from '../keyset/parameter.ts'
import { parseRoleLimits } from '../limits/role-limits.ts'

const fromDatabase = { inDatabase: true }

/** Named by the user, as Postgres names settings: in small letters. */
const appSettings = new Open(
  values.text(`must be at most ${values.MAX_VALUE_LENGTH} characters, none of them zero`, text => !text.includes('\0')),
  {
    form: /^(?=.{1,200}$)[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*$/,
    rule: 'must be a name that Postgres takes: letters, digits and underscores',
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
  'admin-server-host': optional(values.listenHost(), 'Where the admin server listens; server-host where not set.'),
  'admin-server-port': optional(
    values.whole(0, 65_535),
    'Port of the admin server, which is off where not set; 0 takes a free one.',
  ),
  'admin-server-unix-socket': optional(
    values.socketPath(),
    'Socket for the admin server to listen on in place of admin-server-port.',
  ),
  'admin-server-unix-socket-mode': key(values.mode(), '660', 'Mode of that socket, in octal.'),
  'batch-max-requests': key(values.whole(1, 1_000), 100, 'Most requests of a batch.', fromDatabase),
  'batch-path': optional(
    values.text('must be a path like /batch, of letters, digits, -, ., _ and ~, and not under /rpc', isBatchPath),
    'Where several requests are taken to run in one transaction; nowhere where not set.',
    fromDatabase,
  ),
  'client-error-verbosity': key(
    values.choice('verbose', 'minimal'),
    'verbose',
    'Whether errors carry details and hint.',
    fromDatabase,
  ),
  'db-aggregates-enabled': key(values.truth(), false, 'Whether requests may use aggregate functions.', fromDatabase),
  'db-anon-role': optional(
    values.name(),
    'Role of requests without a token, which are refused where not set.',
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
    'Schemas after the served one in the search_path of a request; not served themselves.',
    fromDatabase,
  ),
  'db-hoisted-tx-settings': key(
    values.names(),
    'statement_timeout, plan_filter.statement_cost_limit, default_transaction_isolation',
    'Settings of a function that hold for the whole transaction of its call.',
    fromDatabase,
  ),
  'db-max-rows': optional(
    values.whole(0, 2_147_483_647),
    'Most rows of a response; no limit where not set.',
    fromDatabase,
    { aliases: ['max-rows'] },
  ),
  'db-plan-enabled': key(values.truth(), false, 'Whether requests may ask for their execution plan.', fromDatabase),
  'db-pool': key(values.whole(1, 1_000), 10, 'Most connections to the database, over all workers.'),
  'db-pool-acquisition-timeout': key(values.seconds(), 10, 'Seconds a request waits for a connection.'),
  'db-pool-automatic-recovery': key(
    values.truth(),
    true,
    'Whether a lost connection is tried again; the server ends otherwise.',
  ),
  'db-pool-max-idletime': key(values.seconds(), 30, 'Seconds after which an idle connection is closed.', {
    aliases: ['db-pool-timeout'],
  }),
  'db-pool-max-lifetime': key(values.seconds(), 1_800, 'Seconds after which a connection is replaced.'),
  'db-pre-config': optional(values.functionName(), 'Function that sets keys in the database.', fromDatabase),
  'db-pre-request': optional(
    values.functionName(),
    'Function called in each transaction before the query.',
    fromDatabase,
    { aliases: ['pre-request'] },
  ),
  'db-prepared-statements': key(
    values.truth(),
    true,
    'Whether statements are prepared; set false behind a pooler of transactions.',
    fromDatabase,
  ),
  'db-root-spec': optional(
    values.functionName(),
    'Function that answers at the root in place of OpenAPI.',
    fromDatabase,
    { aliases: ['root-spec'] },
  ),
  'db-schema-watch-interval': key(
    values.whole(0, 3_600),
    0,
    'Seconds between looks whether the schema has changed, over the connection of db-channel; 0: only notifications reload it.',
  ),
  'db-schemas': key(
    values.servedSchemas(),
    'public',
    'Schemas that are served; the first is the default one.',
    fromDatabase,
    { aliases: ['db-schema'] },
  ),
  'db-timezone-enabled': key(values.truth(), true, 'Whether requests may choose their time zone.', fromDatabase),
  'db-timezone-unchecked': key(
    values.truth(),
    false,
    'Whether Postgres alone decides which time zone is one, so that a request may name an offset, and one that is none is an error.',
    fromDatabase,
  ),
  'db-tx-end': key(
    values.choice('commit', 'commit-allow-override', 'rollback', 'rollback-allow-override'),
    'commit',
    'How transactions end, and whether a request may choose otherwise.',
    fromDatabase,
  ),
  'db-uri': key(
    values.connection(),
    'postgresql://',
    "Connection string; what it leaves out comes from libpq's environment variables.",
    { file: '@' },
  ),
  'jwt-aud': optional(values.audience(), 'Audience that tokens must be for; any where not set.', fromDatabase),
  'jwt-cache-max-entries': key(
    values.whole(0, 1_000_000),
    1_000,
    'Most verified tokens kept; 0 keeps none.',
    fromDatabase,
  ),
  'jwt-role-claim-key': key(values.secret(), '.role', 'Path to the role in the claims of a token.', fromDatabase, {
    aliases: ['role-claim-key'],
  }),
  'jwt-secret': optional(
    values.secret(),
    'Passphrase of at least 32 characters, JSON Web Key or key set; tokens are refused where not set.',
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
    'Query parameter of cursors, which page by keys; there is no such paging where not set.',
    fromDatabase,
  ),
  'log-level': key(
    values.choice('crit', 'error', 'warn', 'info', 'debug'),
    'error',
    'What is logged: from failures of the server only to everything.',
  ),
  'log-refusals': key(
    values.truth(),
    false,
    'Whether the log says which grant or policy has refused a request (42501), by one more query.',
    fromDatabase,
  ),
  'log-query': key(values.truth(), false, 'Whether the SQL of requests is logged.'),
  'ndjson-enabled': key(
    values.truth(),
    false,
    'Whether rows can be asked for as lines of JSON (application/x-ndjson).',
    fromDatabase,
  ),
  'openapi-mode': key(
    values.choice('follow-privileges', 'ignore-privileges', 'disabled'),
    'follow-privileges',
    'What the OpenAPI document at the root shows.',
    fromDatabase,
  ),
  'openapi-3-1-enabled': key(
    values.truth(),
    false,
    'Whether the root answers in OpenAPI 3.1 who asks for that.',
    fromDatabase,
  ),
  'openapi-typescript-enabled': key(
    values.truth(),
    false,
    'Whether the root answers the schemas as types of TypeScript to who asks for them.',
    fromDatabase,
  ),
  'openapi-security-active': key(values.truth(), false, 'Whether the OpenAPI document asks for a token.', fromDatabase),
  'openapi-server-proxy-uri': optional(
    values.httpUri(),
    'Where the OpenAPI document says the server is.',
    fromDatabase,
  ),
  'role-limits': optional(
    values.text(
      'must be roles with limits and commas between them, like "web_anon rows=1000 cost=50000 concurrency=20, * rows=10000"',
      text => parseRoleLimits(text) !== undefined,
    ),
    'Most rows, planned cost and requests at once of each role; none where not set.',
    fromDatabase,
  ),
  'server-cors-allowed-origins': optional(
    values.origins(),
    'Origins whose pages may send requests; all where not set.',
    fromDatabase,
  ),
  'server-etag-enabled': key(
    values.truth(),
    false,
    'Whether what GET answers has an ETag, and If-None-Match is heeded; such answers are held as a whole.',
    fromDatabase,
  ),
  'server-host': key(
    values.listenHost(),
    '!4',
    'Where the server listens: an address, or * (any), *4 or *6 (any, that kind first), !4 or !6 (that kind only).',
  ),
  'server-max-body-bytes': key(values.whole(1_024, 1_073_741_824), 10_485_760, 'Most bytes of a request body.'),
  'server-max-header-bytes': key(values.whole(1_024, 1_048_576), 65_536, 'Most bytes of the head of a request.'),
  'server-max-held-bytes': optional(
    values.whole(1_048_576, 1_099_511_627_776),
    'Most bytes of bodies that a worker holds at once; 256 MiB, or 4 times server-max-body-bytes where that is more, where not set.',
  ),
  'server-port': key(values.whole(0, 65_535), 3_000, 'Port of the server; 0 takes a free one.'),
  'server-reuseport': key(
    values.truth(),
    false,
    'Whether other processes of the same user may listen on server-port, too, if they set this key (SO_REUSEPORT).',
  ),
  'server-timing-enabled': key(
    values.truth(),
    false,
    'Whether responses say where their time went (Server-Timing).',
    fromDatabase,
  ),
  'server-trace-header': optional(values.headerName(), 'Header of a request that its response repeats.', fromDatabase),
  'server-unix-socket': optional(values.socketPath(), 'Socket to listen on in place of server-port.'),
  'server-unix-socket-mode': key(values.mode(), '660', 'Mode of that socket, in octal.'),
  'server-workers': key(values.whole(1, 256), 1, 'Worker processes; each has its share of db-pool.'),
  'url-use-legacy-target-names': optional(
    values.truth(),
    'Whether a path of a query string may name an embedding with an alias by its relation: with true the answer then warns, with false it is an error; where not set, it may.',
    fromDatabase,
  ),
}
