/**
 * Every key of the configuration, in one table: its name, what it takes, what it is where nobody sets it, and what it means.
 * Names, defaults and older names are PostgREST 14's (its docs, "List of parameters"); client-error-verbosity,
 * server-workers and the limits on requests are our own. `app.settings.*` is not here, since its names are its users'.
 */
import { type Field as FieldOf, fieldsByName, fieldsOf, key, optional } from '../../configuration/catalogue.ts'
import * as values from '../../configuration/values.ts'
import { isBatchPath } from '../batch/path.ts'
import { isKeysetParameter } from '../keyset/parameter.ts'
import { parseRoleLimits } from '../limits/role-limits.ts'

const alsoFromDatabase = { inDatabase: true }

/** By the field of RestConfiguration that holds the value. */
export const keys = {
  adminServerConfigEnabled: key(
    'admin-server-config-enabled',
    values.truth(),
    false,
    'Whether the admin server shows the configuration, at /config.',
  ),
  adminServerHost: optional(
    'admin-server-host',
    values.listenHost(),
    'Where the admin server listens; server-host where not set.',
  ),
  adminServerPort: optional(
    'admin-server-port',
    values.whole(0, 65_535),
    'Port of the admin server, which is off where not set; 0 takes a free one.',
  ),
  adminServerUnixSocket: optional(
    'admin-server-unix-socket',
    values.socketPath(),
    'Socket for the admin server to listen on in place of admin-server-port.',
  ),
  adminServerUnixSocketMode: key(
    'admin-server-unix-socket-mode',
    values.mode(),
    '660',
    'Mode of that socket, in octal.',
  ),
  batchMaxRequests: key(
    'batch-max-requests',
    values.whole(1, 1_000),
    100,
    'Most requests of a batch.',
    alsoFromDatabase,
  ),
  batchPath: optional(
    'batch-path',
    values.text('must be a path like /batch, of letters, digits, -, ., _ and ~, and not under /rpc', isBatchPath),
    'Where several requests are taken to run in one transaction; nowhere where not set.',
    alsoFromDatabase,
  ),
  clientErrorVerbosity: key(
    'client-error-verbosity',
    values.choice('verbose', 'minimal'),
    'verbose',
    'Whether errors carry details and hint.',
    alsoFromDatabase,
  ),
  dbAggregatesEnabled: key(
    'db-aggregates-enabled',
    values.truth(),
    false,
    'Whether requests may use aggregate functions.',
    alsoFromDatabase,
  ),
  dbAnonRole: optional(
    'db-anon-role',
    values.name(),
    'Role of requests without a token, which are refused where not set.',
    alsoFromDatabase,
  ),
  dbChannel: key(
    'db-channel',
    values.name(),
    'pgrst',
    'Channel whose notifications reload the schema cache or the configuration.',
  ),
  dbChannelEnabled: key('db-channel-enabled', values.truth(), true, 'Whether to listen on db-channel.'),
  dbConfig: key('db-config', values.truth(), true, 'Whether the database may set keys.'),
  dbExtraSearchPath: key(
    'db-extra-search-path',
    values.names(),
    'public',
    'Schemas after the served one in the search_path of a request; not served themselves.',
    alsoFromDatabase,
  ),
  dbHoistedTxSettings: key(
    'db-hoisted-tx-settings',
    values.names(),
    'statement_timeout, plan_filter.statement_cost_limit, default_transaction_isolation',
    'Settings of a function that hold for the whole transaction of its call.',
    alsoFromDatabase,
  ),
  dbMaxRows: optional(
    'db-max-rows',
    values.whole(0, 2_147_483_647),
    'Most rows of a response; no limit where not set.',
    { ...alsoFromDatabase, aliases: ['max-rows'] },
  ),
  dbPlanEnabled: key(
    'db-plan-enabled',
    values.truth(),
    false,
    'Whether requests may ask for their execution plan.',
    alsoFromDatabase,
  ),
  dbPool: key('db-pool', values.whole(1, 1_000), 10, 'Most connections to the database, over all workers.'),
  dbPoolAcquisitionTimeout: key(
    'db-pool-acquisition-timeout',
    values.seconds(),
    10,
    'Seconds a request waits for a connection.',
  ),
  dbPoolAutomaticRecovery: key(
    'db-pool-automatic-recovery',
    values.truth(),
    true,
    'Whether a lost connection is tried again; the server ends otherwise.',
  ),
  dbPoolMaxIdletime: key(
    'db-pool-max-idletime',
    values.seconds(),
    30,
    'Seconds after which an idle connection is closed.',
    { aliases: ['db-pool-timeout'] },
  ),
  dbPoolMaxLifetime: key(
    'db-pool-max-lifetime',
    values.seconds(),
    1_800,
    'Seconds after which a connection is replaced.',
  ),
  dbPreConfig: optional(
    'db-pre-config',
    values.functionName(),
    'Function that sets keys in the database.',
    alsoFromDatabase,
  ),
  dbPreRequest: optional(
    'db-pre-request',
    values.functionName(),
    'Function called in each transaction before the query.',
    { ...alsoFromDatabase, aliases: ['pre-request'] },
  ),
  dbPreparedStatements: key(
    'db-prepared-statements',
    values.truth(),
    true,
    'Whether statements are prepared; set false behind a pooler of transactions.',
    alsoFromDatabase,
  ),
  dbRootSpec: optional(
    'db-root-spec',
    values.functionName(),
    'Function that answers at the root in place of OpenAPI.',
    { ...alsoFromDatabase, aliases: ['root-spec'] },
  ),
  dbSchemas: key(
    'db-schemas',
    values.servedSchemas(),
    'public',
    'Schemas that are served; the first is the default one.',
    { ...alsoFromDatabase, aliases: ['db-schema'] },
  ),
  dbTimezoneEnabled: key(
    'db-timezone-enabled',
    values.truth(),
    true,
    'Whether requests may choose their time zone.',
    alsoFromDatabase,
  ),
  dbTimezoneUnchecked: key(
    'db-timezone-unchecked',
    values.truth(),
    false,
    'Whether Postgres alone decides which time zone is one, so that a request may name an offset, and one that is none is an error.',
    alsoFromDatabase,
  ),
  dbTxEnd: key(
    'db-tx-end',
    values.choice('commit', 'commit-allow-override', 'rollback', 'rollback-allow-override'),
    'commit',
    'How transactions end, and whether a request may choose otherwise.',
    alsoFromDatabase,
  ),
  dbUri: key(
    'db-uri',
    values.connection(),
    'postgresql://',
    "Connection string; what it leaves out comes from libpq's environment variables.",
    { inFile: true },
  ),
  jwtAud: optional(
    'jwt-aud',
    values.audience(),
    'Audience that tokens must be for; any where not set.',
    alsoFromDatabase,
  ),
  jwtCacheMaxEntries: key(
    'jwt-cache-max-entries',
    values.whole(0, 1_000_000),
    1_000,
    'Most verified tokens kept; 0 keeps none.',
    alsoFromDatabase,
  ),
  jwtRoleClaimKey: key('jwt-role-claim-key', values.secret(), '.role', 'Path to the role in the claims of a token.', {
    ...alsoFromDatabase,
    aliases: ['role-claim-key'],
  }),
  jwtSecret: optional(
    'jwt-secret',
    values.secret(),
    'Passphrase of at least 32 characters, JSON Web Key or key set; tokens are refused where not set.',
    { ...alsoFromDatabase, inFile: true, isSecret: true },
  ),
  jwtSecretIsBase64: key('jwt-secret-is-base64', values.truth(), false, 'Whether jwt-secret is written in Base64.', {
    ...alsoFromDatabase,
    aliases: ['secret-is-base64'],
  }),
  keysetParameter: optional(
    'keyset-parameter',
    values.text(
      "must be a name of letters, digits, - and _, and none of PostgREST's own parameters",
      isKeysetParameter,
    ),
    'Query parameter of cursors, which page by keys; there is no such paging where not set.',
    alsoFromDatabase,
  ),
  logLevel: key(
    'log-level',
    values.choice('crit', 'error', 'warn', 'info', 'debug'),
    'error',
    'What is logged: from failures of the server only to everything.',
  ),
  logRefusals: key(
    'log-refusals',
    values.truth(),
    false,
    'Whether the log says which grant or policy has refused a request (42501), by one more query.',
    alsoFromDatabase,
  ),
  logQuery: key('log-query', values.truth(), false, 'Whether the SQL of requests is logged.'),
  ndjsonEnabled: key(
    'ndjson-enabled',
    values.truth(),
    false,
    'Whether rows can be asked for as lines of JSON (application/x-ndjson).',
    alsoFromDatabase,
  ),
  openapiMode: key(
    'openapi-mode',
    values.choice('follow-privileges', 'ignore-privileges', 'disabled'),
    'follow-privileges',
    'What the OpenAPI document at the root shows.',
    alsoFromDatabase,
  ),
  openapi31Enabled: key(
    'openapi-3-1-enabled',
    values.truth(),
    false,
    'Whether the root answers in OpenAPI 3.1 who asks for that.',
    alsoFromDatabase,
  ),
  openapiTypescriptEnabled: key(
    'openapi-typescript-enabled',
    values.truth(),
    false,
    'Whether the root answers the schemas as types of TypeScript to who asks for them.',
    alsoFromDatabase,
  ),
  openapiSecurityActive: key(
    'openapi-security-active',
    values.truth(),
    false,
    'Whether the OpenAPI document asks for a token.',
    alsoFromDatabase,
  ),
  openapiServerProxyUri: optional(
    'openapi-server-proxy-uri',
    values.httpUri(),
    'Where the OpenAPI document says the server is.',
    alsoFromDatabase,
  ),
  roleLimits: optional(
    'role-limits',
    values.text(
      'must be roles with limits and commas between them, like "web_anon rows=1000 cost=50000 concurrency=20, * rows=10000"',
      text => parseRoleLimits(text) !== undefined,
    ),
    'Most rows, planned cost and requests at once of each role; none where not set.',
    alsoFromDatabase,
  ),
  serverCorsAllowedOrigins: optional(
    'server-cors-allowed-origins',
    values.origins(),
    'Origins whose pages may send requests; all where not set.',
    alsoFromDatabase,
  ),
  serverEtagEnabled: key(
    'server-etag-enabled',
    values.truth(),
    false,
    'Whether what GET answers has an ETag, and If-None-Match is heeded; such answers are held as a whole.',
    alsoFromDatabase,
  ),
  serverHost: key(
    'server-host',
    values.listenHost(),
    '!4',
    'Where the server listens: an address, or * (any), *4 or *6 (any, that kind first), !4 or !6 (that kind only).',
  ),
  serverMaxBodyBytes: key(
    'server-max-body-bytes',
    values.whole(1_024, 1_073_741_824),
    10_485_760,
    'Most bytes of a request body.',
  ),
  serverMaxHeaderBytes: key(
    'server-max-header-bytes',
    values.whole(1_024, 1_048_576),
    65_536,
    'Most bytes of the head of a request.',
  ),
  serverMaxHeldBytes: optional(
    'server-max-held-bytes',
    values.whole(1_048_576, 1_099_511_627_776),
    'Most bytes of bodies that a worker holds at once; 256 MiB, or 4 times server-max-body-bytes where that is more, where not set.',
  ),
  serverPort: key('server-port', values.whole(0, 65_535), 3_000, 'Port of the server; 0 takes a free one.'),
  serverReuseport: key(
    'server-reuseport',
    values.truth(),
    false,
    'Whether other processes of the same user may listen on server-port, too, if they set this key (SO_REUSEPORT).',
  ),
  serverTimingEnabled: key(
    'server-timing-enabled',
    values.truth(),
    false,
    'Whether responses say where their time went (Server-Timing).',
    alsoFromDatabase,
  ),
  serverTraceHeader: optional(
    'server-trace-header',
    values.headerName(),
    'Header of a request that its response repeats.',
    alsoFromDatabase,
  ),
  serverUnixSocket: optional('server-unix-socket', values.socketPath(), 'Socket to listen on in place of server-port.'),
  serverUnixSocketMode: key('server-unix-socket-mode', values.mode(), '660', 'Mode of that socket, in octal.'),
  serverWorkers: key('server-workers', values.whole(1, 256), 1, 'Worker processes; each has its share of db-pool.'),
  urlUseLegacyTargetNames: optional(
    'url-use-legacy-target-names',
    values.truth(),
    'Whether a path of a query string may name an embedding with an alias by its relation: with true the answer then warns, with false it is an error; where not set, it may.',
    alsoFromDatabase,
  ),
}

type Field = FieldOf<typeof keys>

export const fields = (): Field[] => fieldsOf(keys)

/** Of names, older ones too, to the field. */
export const fieldOf = fieldsByName(keys)
