/**
 * The part of haproxy.cfg for HTTPS: one listener for the services of all databases. Pure.
 *
 * A request's host name and path give a key, `<owner>/<service>`; the map `services` has what leads there, and the map
 * `callers` who may (http-maps.ts). Each request is judged, also on a connection that was opened long ago, in the order of
 * `judge` in `../http/verdict.ts` and in its words. `https.test.ts` compares the two.
 */
import { type ServiceType, serviceTypes } from '../../routes/route.ts'
import type { Certificate } from '../../server/certificate.ts'
import { httpLimits } from '../http/limits.ts'
import {
  badGateway,
  gatewayTimeout,
  type HttpRefusal,
  largeBody,
  malformedRequest,
  misdirected,
  noBridge,
  noService,
  notAllowed,
  noUpgrade,
  outOfTouch,
  refusalBody,
  slowBody,
  tooManyRequests,
  unauthorized,
  unavailable,
  unknownHost,
  unknownPath,
  unreachable,
} from '../http/refusal.ts'
import { type BodyLimits, bodyFailures, bodyFilter } from './body-limits.ts'
import { hasSeparator, ownerFields, serviceFields } from './http-fields.ts'
import { type PathRule, pathRules } from './http-paths.ts'
import { deadlineKey, drainingKey, type Paths } from './paths.ts'

export type HttpsOptions = {
  port: number
  /** Concurrent connections of clients. Each takes two open files. */
  maxConnections: number
  /** What clients see before the agent has a certificate: HAProxy does not start without one. */
  placeholder: Certificate
  /** Of bodies; others than `httpLimits` in tests. */
  bodies?: Partial<BodyLimits>
}

/** The name of the frontend, which the runtime API needs. */
export const httpsFrontendName = 'services'

const limits = {
  bodyBytes: httpLimits.bodyBytes,
  headersSeconds: 10,
  /** Until a body has arrived, or as much of it as HAProxy's buffer holds. */
  bodySeconds: 30,
  /** Between two requests of a connection. Shorter than the time in which a replica that stops still admits. */
  keepAliveSeconds: 10,
  /** Connections of one address; of one address where three quarters of all connections are in use. */
  perAddress: 1_000,
  perAddressWhenCrowded: 16,
  /** Streams of one HTTP/2 connection. */
  streams: 100,
}

/** After this time an idle connection has been closed. */
export const httpsEndMs = (limits.keepAliveSeconds + 1) * 1000

/** The lines for `global`: HAProxy has these limits of HTTP/2 for the whole process. */
export const httpsGlobals = ({ bodies }: Paths): string[] => [
  `    lua-load-per-thread ${bodies}`,
  `    tune.h2.max-concurrent-streams ${limits.streams}`,
  // Frames that no honest client sends, and streams that are taken back. 2.6 has no such limit; it takes at most one buffer of
  // CONTINUATION frames for a header, and opens no stream while it still works on as many as a client may have.
  '.if version_atleast(3.0)',
  '    tune.h2.fe.glitches-threshold 200',
  '.endif',
]

type Options = { paths: Paths; host: string; proxyProtocolFrom: readonly string[]; https: HttpsOptions }

/** The sections, each as its lines. */
export const httpsSections = (options: Options): string[][] => [defaults(), frontend(options), backends()]

const badRequest = malformedRequest('the request is malformed, or its header is too large')
const failed: HttpRefusal = { status: 500, message: 'the gateway failed' }

const defaults = (): string[] => [
  'defaults services',
  '    mode http',
  '    log global',
  // While bytes of a request are missing, and during the TLS handshake. A client that waits for its response has no limit.
  '    timeout client 30s',
  `    timeout http-request ${limits.headersSeconds}s`,
  `    timeout http-keep-alive ${limits.keepAliveSeconds}s`,
  '    timeout connect 2s',
  '    timeout queue 5s',
  // Services limit their own requests. An event stream may be silent for long.
  '    timeout server 1h',
  // A connection to a service carries one request: the next request goes where the Service leads then.
  '    option http-server-close',
  // A service hears of a client that leaves, also while it has nothing to send.
  '    option abortonclose',
  // Each event of a stream is sent at once.
  '    option http-no-delay',
  '    option dontlognull',
  '    option http-ignore-probes',
  // Also for a body that was cut off (body-limits.ts). HAProxy 2.6 answers 400 there; other versions may answer 500.
  ...[badRequest, failed].map(
    each => `    http-error status ${each.status} ${answer(each, bodyFailures.bodyOr(each))}`,
  ),
  httpError(slowBody),
  httpError(tooManyRequests),
  httpError({ status: 501, message: 'the gateway does not support this request' }),
]

function frontend(options: Options): string[] {
  const { paths, host, https } = options
  return [
    `frontend ${httpsFrontendName} from services`,
    `    bind ${host}:${https.port} ssl crt-list ${paths.certificates} alpn h2,http/1.1 ssl-min-ver TLSv1.2`,
    `    maxconn ${https.maxConnections}`,
    `    filter lua.${bodyFilter}`,
    ...connectionRules(options),
    ...requestRules(paths),
    ...ownerRules(paths),
    ...serviceRules(paths),
    ...loadRules(https),
    ...bodyRules,
    ...forwarding,
    ...bodyFailures.statuses.map(
      status => `    http-after-response set-status ${status} if { var(txn.failed) -m str ${status} }`,
    ),
    // A replica that is about to stop sends its clients to another one.
    `    http-after-response set-header Connection close if { str(${drainingKey}),map_str_int(${paths.state},0) gt 0 }`,
    '    use_backend services-%[var(txn.service)]',
  ]
}

/** Rules that run when a connection arrives, before its TLS handshake. */
function connectionRules({ proxyProtocolFrom: balancers, https }: Options): string[] {
  const full = `{ sc0_conn_cur gt ${limits.perAddress} }`
  const crowded = `{ fe_conn gt ${Math.floor(https.maxConnections * 0.75)} } { sc0_conn_cur gt ${limits.perAddressWhenCrowded} }`
  const track = (when: string, condition: string) => [
    `    tcp-request ${when} track-sc0 src table addresses ${condition}`.trimEnd(),
    `    tcp-request ${when} reject if ${full} or ${crowded}`,
  ]
  if (balancers.length === 0) return track('connection', '')
  const balanced = `{ src ${balancers.join(' ')} }`
  return [
    `    tcp-request connection expect-proxy layer4 if ${balanced}`,
    ...track('connection', `unless ${balanced}`),
    // Only now the header has been read.
    ...track('session', 'unless { sc0_tracked }'),
  ]
}

const found = (variable: string): string => `{ var(${variable}) -m found }`
const isUnset = (variable: string): string => `!${found(variable)}`
const set = (variable: string, expression: string, condition = ''): string =>
  `    http-request set-var(${variable}) ${expression} ${condition}`.trimEnd()

/** What may not be decided by where a request leads. */
const requestRules = (paths: Paths): string[] => [
  set('txn.now', 'date'),
  set('txn.left', `str(${deadlineKey}),map_str_int(${paths.state},0),sub(txn.now)`),
  refuse(outOfTouch, 'unless { var(txn.left) -m int gt 0 }'),
  refuse(noUpgrade, 'if METH_CONNECT'),
  set('txn.named', 'req.hdr(host),lower'),
  refuse(
    malformedRequest('the host name of the request is malformed'),
    `unless { var(txn.named) -m reg ${quoted('^(\\[[0-9a-f:.]+\\]|[a-z0-9._-]{1,255})(:[0-9]{1,5})?$')} }`,
  ),
  set('txn.host', `var(txn.named),host_only,${quoted('regsub("[.]$","")')}`),
  set('txn.path', 'pathq'),
  set('txn.only', 'path'),
  // As `isWellFormed`: what another server could read as another path.
  refuse(
    malformedRequest('the path of the request is malformed'),
    `unless { var(txn.path) -m reg ${quoted('^/[!"$-~]*$')} }`,
  ),
  ...[String.raw`(//|\\)`, '(^|/|%2f|%5c)([.]|%2e){1,2}(/|%2f|%5c|$)'].map(pattern =>
    refuse(
      malformedRequest('the path of the request is malformed'),
      `if { var(txn.only) -m reg -i ${quoted(pattern)} }`,
    ),
  ),
  set('txn.sni', 'ssl_fc_sni,lower'),
  refuse(misdirected, `if ${found('txn.sni')} !{ var(txn.sni),strcmp(txn.host) eq 0 }`),
]

/** By the host name; without a route for it, the path may have the owner's id, as `addressedPath` says. */
const ownerRules = (paths: Paths): string[] => [
  set('txn.owner', 'var(txn.host)', `if { var(txn.host),map_str(${paths.services}) -m found }`),
  `    http-request set-var-fmt(txn.id) "/%[path,field(2,/)]" if ${isUnset('txn.owner')}`,
  set('txn.owner', 'var(txn.id)', `if ${isUnset('txn.owner')} { var(txn.id),map_str(${paths.services}) -m found }`),
  set('txn.prefix', 'var(txn.id)', `if ${found('txn.owner')} { var(txn.owner),strcmp(txn.id) eq 0 }`),
  set('txn.path', `pathq,${quoted('regsub("^/[^/?]*","")')}`, `if ${found('txn.prefix')}`),
  `    http-request set-var-fmt(txn.path) "/%[var(txn.path)]" if ${found('txn.prefix')} !{ var(txn.path) -m beg / }`,
  `    http-request set-var-fmt(txn.id) "/%[path,field(4,/)]" if ${isUnset('txn.owner')} { var(txn.only) -m beg /.well-known/ }`,
  set('txn.owner', 'var(txn.id)', `if ${isUnset('txn.owner')} { var(txn.id),map_str(${paths.services}) -m found }`),
  refuse(unknownHost, `unless ${found('txn.owner')}`),
  set('txn.only', 'var(txn.path),field(1,?)'),
  set('txn.about', `var(txn.owner),map_str(${paths.services})`),
  ...ownerFields.map((name, index) => set(`txn.${name}`, `var(txn.about),field(${index + 1},|)`)),
  set('txn.has', `var(txn.has),${quoted(`regsub("[${hasSeparator}]",", ",g)`)}`),
]

const fieldOf = (name: (typeof serviceFields)[number]): string =>
  `var(txn.leads),field(${serviceFields.indexOf(name) + 1},|)`
const isService = (service: string): string => `{ var(txn.service) -m str ${service} }`

/** Where to, and whether this caller may. */
const serviceRules = (paths: Paths): string[] => [
  ...pathRules.flatMap(pathRule),
  refuse(unknownPath([]), `if ${isUnset('txn.service')} { var(txn.has) -m len 0 }`),
  refuse(withHas(unknownPath(serviceTypes)), `if ${isUnset('txn.service')}`),
  '    http-request set-var-fmt(txn.key) "%[var(txn.owner)]/%[var(txn.service)]"',
  set('txn.leads', `var(txn.key),map_str(${paths.services})`),
  ...forEachService(service => refuse(noService(service), `if ${isUnset('txn.leads')} ${isService(service)}`)),
  `    http-request set-var-fmt(txn.caller) "%[${fieldOf('network')}]:%[src]"`,
  set('txn.admitted', `var(txn.caller),map_ip(${paths.callers})`),
  ...forEachService(service =>
    refuse(notAllowed(service, '%[var(txn.label)]', '%[src]'), `if ${isUnset('txn.admitted')} ${isService(service)}`),
  ),
  ...tokenRules,
  set('txn.unavailable', fieldOf('unavailable')),
  ...forEachService(service =>
    (['suspended', 'starting'] as const).map(reason =>
      refuse(unavailable(service, reason), `if { var(txn.unavailable) -m str ${reason} } ${isService(service)}`),
    ),
  ),
  set('txn.port', fieldOf('port'), `if ${isUnset('txn.bridge')}`),
  set('txn.bridgePort', fieldOf('bridgePort')),
  refuse(noBridge, `if ${found('txn.bridge')} { var(txn.bridgePort) -m len 0 }`),
  set('txn.port', 'var(txn.bridgePort)', `if ${found('txn.bridge')}`),
  set('txn.address', fieldOf('address')),
  ...forEachService(service => refuse(unreachable(service), `if { var(txn.address) -m len 0 } ${isService(service)}`)),
]

const forEachService = (lines: (service: ServiceType) => string | string[]): string[] => serviceTypes.flatMap(lines)

function pathRule({ path, match, service, port, strip }: PathRule): string[] {
  const conditions = [`-m str ${path}`, ...(match === 'below' ? [`-m beg ${path}/`] : [])]
  return conditions.flatMap(condition => {
    const matches = `if ${isUnset('txn.service')} { var(txn.only) ${condition} }`
    return [
      ...(port === 'bridge' ? [set('txn.bridge', 'str(yes)', matches)] : []),
      ...(strip === undefined ? [] : [set('txn.strip', `str(${strip})`, matches)]),
      set('txn.service', `str(${service})`, matches),
    ]
  })
}

/** The list of services is not known when the configuration is written. */
function withHas(refusal: HttpRefusal): HttpRefusal {
  const every = serviceTypes.map(service => `/${service}`).join(', ')
  return { ...refusal, message: refusal.message.replace(every, '%[var(txn.has)]') }
}

/** `rag` always needs a token, other services where their route has the digest of one. Without a digest no token is right. */
const tokenRules: string[] = [
  set('txn.digest', fieldOf('tokenDigest')),
  set('txn.open', 'str(yes)', `if { var(txn.digest) -m len 0 } !${isService('rag')}`),
  set('txn.authorization', 'req.fhdr(authorization,1)'),
  set(
    'txn.token',
    `var(txn.authorization),${quoted(String.raw`regsub("^bearer +([^ ]+) *$","\1",i)`)},sha2(256),hex,lower`,
    `if { var(txn.authorization) -m reg -i ${quoted('^bearer +[^ ]+ *$')} }`,
  ),
  set('txn.open', 'str(yes)', `if ${found('txn.token')} { var(txn.token),strcmp(txn.digest) eq 0 }`),
  // As `isPreflight`. A body of HTTP/2 has no header that tells of it.
  `    http-request wait-for-body time ${limits.bodySeconds}s at-least 1 if METH_OPTIONS`,
  set(
    'txn.open',
    'str(yes)',
    'if METH_OPTIONS !{ req.body_size gt 0 } !{ req.hdr(transfer-encoding) -m found } { req.hdr(origin) -m found } { req.hdr(access-control-request-method) -m found }',
  ),
  refuse(unauthorized(false), `if ${isUnset('txn.open')} ${isUnset('txn.authorization')}`),
  refuse(unauthorized(true), `if ${isUnset('txn.open')}`),
]

/**
 * A request takes an open file, and a connection of HTTP/2 may have many: without a limit they would take those of Postgres's
 * clients.
 */
function loadRules({ maxConnections }: HttpsOptions): string[] {
  const [first = '', ...others] = serviceTypes.map(service => `be_conn(services-${service})`)
  return [
    ...others.map((connections, index) => set(`txn.busy${index}`, connections)),
    set('txn.busy', [first, ...others.map((_, index) => `add(txn.busy${index})`)].join(',')),
    '    http-request track-sc1 src table requests',
    refuse(tooManyRequests, `if { var(txn.busy) -m int ge ${maxConnections} }`),
    refuse(tooManyRequests, `if { sc1_conn_cur gt ${limits.perAddress} }`),
    refuse(
      tooManyRequests,
      `if { var(txn.busy) -m int ge ${Math.floor(maxConnections * 0.75)} } { sc1_conn_cur gt ${limits.perAddressWhenCrowded} }`,
    ),
  ]
}

const bodyRules: string[] = [
  refuse(noUpgrade, 'if { req.hdr(upgrade) -m sub -i websocket }'),
  refuse(largeBody(limits.bodyBytes), `if { req.body_size gt ${limits.bodyBytes} }`),
  // A body that arrives slowly does not reach the service. What HAProxy's buffer does not hold is forwarded as it arrives.
  `    http-request wait-for-body time ${limits.bodySeconds}s`,
]

/** What the service is sent. */
const forwarding: string[] = [
  '    http-request set-dst var(txn.address)',
  '    http-request set-dst-port var(txn.port)',
  // The token that the gateway has checked is no one else's.
  `    http-request del-header Authorization if ${isService('rag')} or !{ var(txn.digest) -m len 0 }`,
  '    http-request del-header X-Forwarded- -m beg',
  ...['X-Real-IP', 'Forwarded', 'Upgrade'].map(name => `    http-request del-header ${name}`),
  '    http-request set-header X-Forwarded-For %[src]',
  '    http-request set-header X-Forwarded-Proto https',
  '    http-request set-header X-Forwarded-Host %[req.hdr(host)]',
  `    http-request set-header X-Forwarded-Prefix "%[var(txn.prefix)]%[var(txn.strip)]" if ${found('txn.prefix')} or ${found('txn.strip')}`,
  ...[...new Set(pathRules.flatMap(({ strip }) => strip ?? []))].map(strip =>
    set('txn.path', `var(txn.path),bytes(${strip.length})`, `if { var(txn.strip) -m str ${strip} }`),
  ),
  '    http-request set-var-fmt(txn.path) "/%[var(txn.path)]" unless { var(txn.path) -m beg / }',
  '    http-request set-uri %[var(txn.path)]',
]

/**
 * One for each type of service, so that errors name it and metrics tell them apart. A service that refuses connections is
 * tried again: one of its pods may just have ended.
 */
const backends = (): string[] => [
  ...serviceTypes.flatMap(service => [
    `backend services-${service} from services`,
    '    retries 3',
    httpError(unreachable(service)),
    httpError(badGateway(service)),
    httpError(gatewayTimeout(service)),
    '    server service 0.0.0.0:0',
    '',
  ]),
  ...['addresses', 'requests'].flatMap(table => [
    `backend ${table} from services`,
    '    stick-table type ip size 100k expire 60s store conn_cur',
    '',
  ]),
]

function refuse(refusal: HttpRefusal, condition: string): string {
  return `    http-request return status ${refusal.status} ${answer(refusal)} ${condition}`
}
function httpError(refusal: HttpRefusal): string {
  return `    http-error status ${refusal.status} ${answer(refusal)}`
}

/** The message may have expressions of HAProxy, `%[...]`. */
function answer(refusal: HttpRefusal, body = refusalBody(refusal)): string {
  const fields = Object.entries({ 'cache-control': 'no-store', ...refusal.headers })
  return [
    `content-type application/json lf-string ${quoted(body)}`,
    ...fields.map(([name, value]) => `hdr ${name} ${quoted(value)}`),
  ].join(' ')
}

/** Between single quotes HAProxy's configuration takes everything as it is but the quote itself. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
