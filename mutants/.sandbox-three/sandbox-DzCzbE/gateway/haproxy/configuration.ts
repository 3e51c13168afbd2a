/**
 * Renders haproxy.cfg. Pure, and the same for every installation but for a few numbers: which route leads where, and
 * whom it admits, is in maps that the agent changes while HAProxy runs, so that nothing is ever reloaded.
 *
 * The verdict is one lookup: port and source make an IPv6 address, `fd00::<port>:<source>`, and the longest prefix in
 * the map `allow` that covers it gives the address to connect to. What admits and where it leads cannot come apart, and
 * one entry changes at once. No entry, no deadline in the future, no agent: nobody is admitted.
 *
 * It keeps to what both HAProxy 2.6 and 3.0 understand.
 */
// @ts-nocheck

import { type LoginLimits, loginLimits } from '../logins.ts'
import { beginMs, loginActions, loginRefusal } from './logins.ts'
import { deadlineKey, type Paths } from './paths.ts'

export type PortRange = { first: number; last: number }

export type HaproxyOptions = {
  paths: Paths
  /** An IPv4 address to listen on. */
  host: string
  ports: PortRange
  /** Load balancers that begin each connection with a PROXY protocol header, as masked CIDR blocks; nobody else may. */
  proxyProtocolFrom: readonly string[]
  /** Connections at once, of all routes and of one. */
  maxConnections: number
  maxConnectionsPerRoute: number
  /** Of connections that have not logged in. */
  logins: LoginLimits
  threads: number
  /** Where /healthz and HAProxy's own /metrics are. */
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

/** What the agent may converse with at once; above it a denied connection is closed without a word. */
export const refusalsAtOnce = 256
/** A refused source beyond these is closed before the agent hears of it. */
const refusedPerSource = { inTenSeconds: 100, atOnce: 20 }

/** Names in the configuration that others need to know. */
export const frontendName = 'databases'
/** Why HAProxy hands a connection to the agent, as the last word of the unique id in its PROXY header. */
export const reasons = { denied: 'denied', closed: 'closed', tooMany: 'too-many', logins: loginRefusal } as const

export function renderConfiguration(options: HaproxyOptions): string {
  const { paths, host, ports, proxyProtocolFrom, maxConnections } = options
  const found = (variable: string) => `{ var(${variable}) -m found }`
  const isRefused = found('txn.reason')
  const expectProxy =
    proxyProtocolFrom.length > 0
      ? [`    tcp-request connection expect-proxy layer4 if { src ${proxyProtocolFrom.join(' ')} }`]
      : []
  const verdict = [
    '    tcp-request content set-var(txn.now) date',
    `    tcp-request content set-var(txn.left) str(${deadlineKey}),map_str_int(${paths.state},0),sub(txn.now)`,
    // A lookup that finds nothing leaves a variable as it was.
    '    tcp-request content unset-var(txn.target)',
    `    tcp-request content set-var(txn.target) var(sess.key),map_ip(${paths.allow})`,
    `    tcp-request content set-var(txn.reason) str(${reasons.closed}) unless { var(txn.left) -m int gt 0 } or ${isRefused}`,
    `    tcp-request content set-var(txn.reason) str(${reasons.denied}) unless ${found('txn.target')} or ${isRefused}`,
  ]
  const agent = `server agent unix@${paths.refusals} send-proxy-v2 proxy-v2-options unique-id`
  return `${[
    '# Written by espalier gateway configuration; changed by nobody.',
    'global',
    '    log stdout format raw local0 notice',
    // The operations page and the runtime API need a few of their own.
    `    maxconn ${maxConnections + 100}`,
    // A script that sleeps is not always woken in 2.6 where there are several threads (seen: one wait in a thousand).
    '.if version_atleast(3.0)',
    `    nbthread ${options.threads}`,
    '.else',
    '    nbthread 1',
    '.endif',
    `    stats socket ${paths.runtime} mode 600 level admin`,
    '    stats timeout 10m',
    // It is told to stop once no session is open; what else is connected then is the agent.
    '    hard-stop-after 5s',
    `    lua-load ${paths.logins}`,
    '',
    'defaults databases',
    '    mode tcp',
    '    log global',
    // Until a connection is joined: for its PROXY header, its first bytes, a connection to its database.
    '    timeout client 10s',
    '    timeout server 10s',
    // Three tries at a machine that stays silent are over in 6 s; in each its kernel is asked twice.
    '    timeout connect 2s',
    '    timeout queue 5s',
    // Once joined. Postgres sessions may idle for weeks; a peer that vanished is found by keepalives instead.
    '    timeout tunnel 24d',
    '    timeout client-fin 60s',
    '    timeout server-fin 60s',
    ...['cli', 'srv'].flatMap(side => [
      `    option ${side}tcpka`,
      `    ${side}tcpka-idle 60s`,
      `    ${side}tcpka-intvl 10s`,
      `    ${side}tcpka-cnt 6`,
    ]),
    '',
    `frontend ${frontendName} from databases`,
    `    bind ${host}:${ports.first}-${ports.last}`,
    `    maxconn ${maxConnections}`,
    `    filter ${loginActions.watch}`,
    // What the agent is told in the PROXY header: the port that was really dialled, and why it gets the connection.
    '    unique-id-format "%[var(sess.port)] %[var(txn.reason)]"',
    // Before a PROXY header is read: it may name another port, but not choose a database by it.
    '    tcp-request connection set-var(sess.port) dst_port',
    '    tcp-request connection set-var(sess.group) dst_port,hex,bytes(12,4)',
    ...expectProxy,
    `    tcp-request connection reject unless { var(sess.port),map_str(${paths.ports}) -m found }`,
    // Who is not admitted can be counted by source; who is may open as many as the database takes.
    '    tcp-request session set-var-fmt(sess.key) "fd00::%[var(sess.group)]:%[src]"',
    `    tcp-request session track-sc0 src table refused unless { var(sess.key),map_ip(${paths.allow}) -m found }`,
    `    tcp-request session reject if { sc0_conn_rate gt ${refusedPerSource.inTenSeconds} } or { sc0_conn_cur gt ${refusedPerSource.atOnce} }`,
    `    tcp-request inspect-delay ${beginMs / 1000}s`,
    ...verdict,
    // A place of its route's is taken once, when the connection arrives.
    `    tcp-request content set-var(txn.reason) str(${reasons.tooMany}) if !${isRefused} !${found('sess.counted')} { var(sess.port),table_conn_cur(routes) ge ${options.maxConnectionsPerRoute} }`,
    `    tcp-request content track-sc1 var(sess.port) table routes unless ${isRefused}`,
    `    tcp-request content set-var(sess.counted) str(yes) unless ${isRefused}`,
    // Whoever has said nothing yet counts, too.
    `    tcp-request content ${loginActions.arrive} unless ${isRefused} or ${found('txn.login')}`,
    `    tcp-request content reject if ${isRefused} { be_conn(refusals) ge ${refusalsAtOnce} }`,
    `    tcp-request content accept if ${isRefused}`,
    // Waits for the first bytes: a database is not troubled by who says nothing. All of the above is judged again then.
    '    tcp-request content reject unless { req.len gt 0 }',
    // Waits for its turn. Rules may have changed meanwhile.
    `    tcp-request content ${loginActions.begin}`,
    `    tcp-request content reject if ${found('txn.left_early')}`,
    ...verdict,
    `    tcp-request content reject if ${isRefused} { be_conn(refusals) ge ${refusalsAtOnce} }`,
    `    tcp-request content accept if ${isRefused}`,
    '    tcp-request content set-dst var(txn.target),field(1,:)',
    '    tcp-request content set-dst-port var(txn.target),field(2,:)',
    `    use_backend refusals if ${isRefused}`,
    '    default_backend databases',
    '',
    // A database that refuses connections may have started a moment ago, and the node's own table of Services lag behind,
    // or be starting anew: it is tried again a second later, twice. The last try goes to the agent, which says so in
    // Postgres's words.
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
    '',
    'defaults operations',
    '    mode http',
    '    timeout client 5s',
    '    timeout server 5s',
    '    timeout http-request 5s',
    '',
    'frontend operations from operations',
    `    bind ${host}:${options.operationsPort}`,
    '    maxconn 32',
    '    monitor-uri /healthz',
    '    http-request use-service prometheus-exporter if { path /metrics }',
    '    http-request return status 404',
  ].join('\n')}\n`
}
