/**
 * Renders haproxy.cfg. Pure. Installations differ only in options, such as ports, limits and load balancers. Routes,
 * their targets and their allowlists are in maps. The agent changes the maps while HAProxy runs, so it never reloads
 * HAProxy.
 *
 * HAProxy admits a client by one lookup in the map `allow`. The key is an IPv6 address that consists of the port and
 * the client's address: `fd00::<port>:<source>`. The value of the longest matching prefix is the target's address. So
 * one entry contains both the admitted block and the target, and changes atomically. HAProxy refuses a client that has
 * no entry. HAProxy refuses every client after the deadline, and until an agent has set a deadline.
 *
 * The configuration uses only features that both HAProxy 2.6 and 3.0 support.
 */
import { type LoginLimits, loginLimits } from '../logins.ts'
import { type HttpsOptions, httpsGlobals, httpsSections } from './https.ts'
import { beginMs, loginActions, loginRefusal } from './logins.ts'
import { deadlineKey, type Paths, type PortRange } from './paths.ts'

export type HaproxyOptions = {
  paths: Paths
  /** An IPv4 address to listen on. */
  host: string
  ports: PortRange
  /**
   * Load balancers that send a PROXY protocol header, as CIDR blocks without host bits. No other client may send a
   * header.
   */
  proxyProtocolFrom: readonly string[]
  /** The maximum number of concurrent connections: of all routes, and of one route. */
  maxConnections: number
  maxConnectionsPerRoute: number
  /** Limits of connections that have not logged in. */
  logins: LoginLimits
  threads: number
  /** If absent, HAProxy has no HTTPS listener. */
  https?: HttpsOptions | undefined
  /** The port of /healthz and of HAProxy's /metrics. */
  operationsPort: number
}

export const haproxyDefaults = {
  host: '0.0.0.0',
  proxyProtocolFrom: [],
  maxConnections: 20_000,
  maxConnectionsPerRoute: 2_000,
  logins: loginLimits,
  threads: 2,
  operationsPort: 8405,
} satisfies Partial<HaproxyOptions>

/**
 * The maximum number of concurrent refusals by the agent. Above this limit, HAProxy closes a refused connection without
 * an error message.
 */
export const refusalsAtOnce = 256
/** Limits of refused connections per source. Above them, HAProxy closes the connection without an error message. */
const refusedPerSource = { inTenSeconds: 100, atOnce: 20 }

/** The frontend's name in the runtime API. */
export const frontendName = 'databases'
/** Why HAProxy passes a connection to the agent. The reason is the last word of the unique id in the PROXY header. */
export const reasons = { denied: 'denied', closed: 'closed', tooMany: 'too-many', logins: loginRefusal } as const

export function renderConfiguration(options: HaproxyOptions): string {
  const sections = [
    global(options),
    databaseDefaults,
    frontend(options),
    backends(options.paths),
    ...(options.https === undefined ? [] : httpsSections({ ...options, https: options.https })),
    [
      'defaults operations',
      '    mode http',
      '    timeout client 5s',
      '    timeout server 5s',
      '    timeout http-request 5s',
    ],
    operationsFrontend(options),
  ]
  const text = sections.map(lines => lines.join('\n')).join('\n\n')
  return `# Written by espalier gateway configuration; do not edit.\n${text}\n`
}

const global = ({ paths, maxConnections, threads, https }: HaproxyOptions): string[] => [
  'global',
  '    log stdout format raw local0 notice',
  // The operations page and the runtime API need additional connections.
  `    maxconn ${maxConnections + (https?.maxConnections ?? 0) + 100}`,
  // With several threads, HAProxy 2.6 sometimes does not wake a sleeping script (observed: about one wait in 1,000).
  '.if version_atleast(3.0)',
  `    nbthread ${threads}`,
  '.else',
  '    nbthread 1',
  '.endif',
  `    stats socket ${paths.runtime} mode 600 level admin`,
  '    stats timeout 10m',
  // drain.ts stops HAProxy only after the last session. After 5 s, HAProxy also closes the agent's connection, and
  // exits.
  '    hard-stop-after 5s',
  `    lua-load ${paths.logins}`,
  ...(https === undefined ? [] : httpsGlobals(paths)),
]

const databaseDefaults: string[] = [
  'defaults databases',
  '    mode tcp',
  '    log global',
  // These timeouts apply until HAProxy has connected the client to its database.
  '    timeout client 10s',
  '    timeout server 10s',
  // Three attempts to reach a machine that does not answer take at most 6 s. Each attempt sends two SYN packets.
  '    timeout connect 2s',
  '    timeout queue 5s',
  // Applies after HAProxy has connected the client to its database, because Postgres sessions may be idle for weeks. 24
  // days is nearly HAProxy's maximum. Keepalives detect a peer that no longer exists.
  '    timeout tunnel 24d',
  '    timeout client-fin 60s',
  '    timeout server-fin 60s',
  ...['cli', 'srv'].flatMap(side => [
    `    option ${side}tcpka`,
    `    ${side}tcpka-idle 60s`,
    `    ${side}tcpka-intvl 10s`,
    `    ${side}tcpka-cnt 6`,
  ]),
]

const found = (variable: string): string => `{ var(${variable}) -m found }`
const isRefused = found('txn.reason')

function frontend(options: HaproxyOptions): string[] {
  const { paths, host, ports, maxConnections } = options
  return [
    `frontend ${frontendName} from databases`,
    `    bind ${host}:${ports.first}-${ports.last}`,
    `    maxconn ${maxConnections}`,
    `    filter ${loginActions.watch}`,
    // The agent reads the dialled port and the refusal's reason from the PROXY header.
    '    unique-id-format "%[var(sess.port)] %[var(txn.reason)]"',
    ...connectionRules(options),
    `    tcp-request inspect-delay ${beginMs / 1000}s`,
    ...decision(paths),
    ...loginRules(options),
    ...decision(paths),
    ...refusal,
    '    tcp-request content set-dst var(txn.target),field(1,:)',
    '    tcp-request content set-dst-port var(txn.target),field(2,:)',
    `    use_backend refusals if ${isRefused}`,
    '    default_backend databases',
  ]
}

/** Rules that run when a connection arrives, before its first bytes. */
const connectionRules = ({ paths, proxyProtocolFrom }: HaproxyOptions): string[] => [
  // Set before the PROXY header is read. The header may name another port, and that port must not select the database.
  '    tcp-request connection set-var(sess.port) dst_port',
  '    tcp-request connection set-var(sess.group) dst_port,hex,bytes(12,4)',
  ...(proxyProtocolFrom.length > 0
    ? [`    tcp-request connection expect-proxy layer4 if { src ${proxyProtocolFrom.join(' ')} }`]
    : []),
  `    tcp-request connection reject unless { var(sess.port),map_str(${paths.ports}) -m found }`,
  // The limits per source apply only to refused clients. For admitted clients, only the route's limit and the login
  // limits apply.
  '    tcp-request session set-var-fmt(sess.key) "fd00::%[var(sess.group)]:%[src]"',
  `    tcp-request session track-sc0 src table refused unless { var(sess.key),map_ip(${paths.allow}) -m found }`,
  `    tcp-request session reject if { sc0_conn_rate gt ${refusedPerSource.inTenSeconds} } or { sc0_conn_cur gt ${refusedPerSource.atOnce} }`,
]

const decision = (paths: Paths): string[] => [
  '    tcp-request content set-var(txn.now) date',
  `    tcp-request content set-var(txn.left) str(${deadlineKey}),map_str_int(${paths.state},0),sub(txn.now)`,
  // A lookup without a result does not change its variable.
  '    tcp-request content unset-var(txn.target)',
  `    tcp-request content set-var(txn.target) var(sess.key),map_ip(${paths.allow})`,
  `    tcp-request content set-var(txn.reason) str(${reasons.closed}) unless { var(txn.left) -m int gt 0 } or ${isRefused}`,
  `    tcp-request content set-var(txn.reason) str(${reasons.denied}) unless ${found('txn.target')} or ${isRefused}`,
]

/** Passes a refused connection to the agent. Closes it if the agent already has `refusalsAtOnce` connections. */
const refusal: string[] = [
  `    tcp-request content reject if ${isRefused} { be_conn(refusals) ge ${refusalsAtOnce} }`,
  `    tcp-request content accept if ${isRefused}`,
]

/** Rules between the two uses of `decision`: the route's limit, the first bytes, and the wait for a login slot. */
const loginRules = ({ maxConnectionsPerRoute }: HaproxyOptions): string[] => [
  // HAProxy evaluates the rules below again when bytes arrive, but a connection counts only once towards its route's
  // limit.
  `    tcp-request content set-var(txn.reason) str(${reasons.tooMany}) if !${isRefused} !${found('sess.counted')} { var(sess.port),table_conn_cur(routes) ge ${maxConnectionsPerRoute} }`,
  `    tcp-request content track-sc1 var(sess.port) table routes unless ${isRefused}`,
  `    tcp-request content set-var(sess.counted) str(yes) unless ${isRefused}`,
  // From here, the connection counts towards the limit of silent connections.
  `    tcp-request content ${loginActions.arrive} unless ${isRefused} or ${found('txn.login')}`,
  ...refusal,
  // Waits for the first bytes, so that silent clients never reach the database. Then HAProxy evaluates all rules above
  // again.
  '    tcp-request content reject unless { req.len gt 0 }',
  // Waits for a login slot. The allowlist may change during the wait, so `decision` checks it again.
  `    tcp-request content ${loginActions.begin}`,
  `    tcp-request content reject if ${found('txn.left_early')}`,
]

function backends(paths: Paths): string[] {
  const agent = `server agent unix@${paths.refusals} send-proxy-v2 proxy-v2-options unique-id`
  return [
    // A connection may fail because the database has just started, or because the node's Service rules (kube-proxy) are
    // outdated. HAProxy retries twice, 1 s apart. The last attempt goes to the agent, which sends the client an error
    // in Postgres's protocol.
    'backend databases from databases',
    '    balance roundrobin',
    '    retries 3',
    '    option redispatch -1',
    '    use-server database if TRUE',
    '    server database 0.0.0.0:0',
    `    ${agent}`,
    '',
    'backend refusals from databases',
    '    retries 0',
    `    ${agent}`,
    '',
    'backend refused from databases',
    '    stick-table type ip size 100k expire 60s store conn_rate(10s),conn_cur',
    '',
    'backend routes from databases',
    '    stick-table type integer size 64k expire 1h store conn_cur',
  ]
}

const operationsFrontend = ({ host, operationsPort }: HaproxyOptions): string[] => [
  'frontend operations from operations',
  `    bind ${host}:${operationsPort}`,
  '    maxconn 32',
  '    monitor-uri /healthz',
  '    http-request use-service prometheus-exporter if { path /metrics }',
  '    http-request return status 404',
]
