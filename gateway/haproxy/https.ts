/**
 * The part of haproxy.cfg for HTTPS: one listener for the services of all databases. Pure.
 *
 * A request's host name and path form a key, `<owner>/<service>`. The map `services` contains the target for this key,
 * and the map `callers` contains the admitted clients (http-maps.ts). HAProxy checks every request of a connection. The
 * order and the messages of the checks are those of `decideRequest` in `../http/decision.ts`; `https.test.ts` compares
 * both. There is one difference: HAProxy accepts a database id in the path for every host name without a route.
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
  /**
   * The maximum number of concurrent client connections, and of concurrent requests. Each connection takes two open
   * files.
   */
  maxConnections: number
  /** HAProxy uses this certificate until the agent pushes one, because HAProxy does not start without a certificate. */
  placeholder: Certificate
  /** Limits of bodies; default: `httpLimits`. Tests use other values. */
  bodies?: Partial<BodyLimits>
}

/** The frontend's name in the runtime API. */
export const httpsFrontendName = 'services'

const limits = {
  bodyBytes: httpLimits.bodyBytes,
  headersSeconds: 10,
  /** The time limit for a complete body, or for the part of a body that fills HAProxy's buffer. */
  bodySeconds: 30,
  /**
   * The maximum time between two requests of a connection. Shorter than `settleMs`, in which a stopping replica still
   * admits connections.
   */
  keepAliveSeconds: 10,
  /**
   * The maximum number of connections of one address, and of its requests. The lower limit applies while about three
   * quarters of `maxConnections` or more are in use.
   */
  perAddress: 1_000,
  perAddressWhenCrowded: 16,
  /** The maximum number of concurrent streams of an HTTP/2 connection. */
  streams: 100,
}

/** Within this time after `endHttps`, HAProxy closes every idle connection. */
export const httpsEndMs = (limits.keepAliveSeconds + 1) * 1000

/** The lines for `global`: the body script, and HTTP/2 limits. HAProxy has these limits only for the whole process. */
export const httpsGlobals = ({ bodies }: Paths): string[] => [
  `    lua-load-per-thread ${bodies}`,
  `    tune.h2.max-concurrent-streams ${limits.streams}`,
  // Limits cancelled streams, and frames that only malicious clients send. HAProxy 2.6 has no such limit. It only
  // limits a header with its CONTINUATION frames to one buffer, and the concurrent streams of a connection.
  '.if version_atleast(3.0)',
  '    tune.h2.fe.glitches-threshold 200',
  '.endif',
]

type Options = { paths: Paths; host: string; proxyProtocolFrom: readonly string[]; https: HttpsOptions }

/** The sections, each as its lines. */
export const httpsSections = (options: Options): string[][] => [defaults(), frontend(options), backends()]

const badRequest = malformedRequest('the request is malformed, or its header is too large')
const failed: HttpRefusal = { status: 500, message: 'internal error of the gateway; retry' }

const defaults = (): string[] => [
  'defaults services',
  '    mode http',
  '    log global',
  // Applies while bytes of a request are missing, and during the TLS handshake. A client that waits for its response
  // has no limit.
  '    timeout client 30s',
  `    timeout http-request ${limits.headersSeconds}s`,
  `    timeout http-keep-alive ${limits.keepAliveSeconds}s`,
  '    timeout connect 2s',
  '    timeout queue 5s',
  // Services limit their own requests. An event stream may be silent for up to 1 h.
  '    timeout server 1h',
  // A connection to a service carries one request, so the next request reaches a current pod of the Service.
  '    option http-server-close',
  // Forwards a client's disconnect to the service, also while no data are sent.
  '    option abortonclose',
  // Sends each event of a stream at once.
  '    option http-no-delay',
  '    option dontlognull',
  '    option http-ignore-probes',
  // HAProxy also sends these messages if the script stops a body (body-limits.ts): 2.6 sends 400, other versions may
  // send 500.
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
    // A replica that is about to stop makes its clients connect to another replica.
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
    // HAProxy has read the client's address from the PROXY header only when the session rules run.
    ...track('session', 'unless { sc0_tracked }'),
  ]
}

const found = (variable: string): string => `{ var(${variable}) -m found }`
const isUnset = (variable: string): string => `!${found(variable)}`
const set = (variable: string, expression: string, condition = ''): string =>
  `    http-request set-var(${variable}) ${expression} ${condition}`.trimEnd()

/** Checks that do not depend on the request's target. */
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
  // Like `isWellFormed`: refuses a path that another server could read differently.
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

/**
 * Finds the owner by the host name. If the host name has no route, the path may contain the owner's id, as in
 * `addressedPath`.
 */
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

/** Finds the target, and checks whether this caller is admitted. */
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

/** The list of services is not known when this configuration is rendered, so the message reads it from a variable. */
function withHas(refusal: HttpRefusal): HttpRefusal {
  const every = serviceTypes.map(service => `/${service}`).join(', ')
  return { ...refusal, message: refusal.message.replace(every, '%[var(txn.has)]') }
}

/**
 * `rag` always needs a token. Other services need a token if their route has a token's digest. If the route of `rag`
 * has no digest, no token is valid.
 */
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
  // As in `isPreflight`. With HTTP/2, no header announces a body, so HAProxy waits for the body's first byte.
  `    http-request wait-for-body time ${limits.bodySeconds}s at-least 1 if METH_OPTIONS`,
  set(
    'txn.open',
    'str(yes)',
    'if METH_OPTIONS !{ req.body_size gt 0 } !{ req.hdr(transfer-encoding) -m found } { req.hdr(origin) -m found } { req.hdr(access-control-request-method) -m found } !{ req.hdr(connection) -m str -i origin access-control-request-method }',
  ),
  refuse(unauthorized(false), `if ${isUnset('txn.open')} ${isUnset('txn.authorization')}`),
  refuse(unauthorized(true), `if ${isUnset('txn.open')}`),
]

/**
 * A request uses an open file, and an HTTP/2 connection may have many requests. Without a limit, requests could use up
 * the open files that Postgres's clients need.
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
  // HAProxy connects to the service only after it has received the complete body or filled its buffer. It then forwards
  // further bytes as they arrive.
  `    http-request wait-for-body time ${limits.bodySeconds}s`,
]

/** Builds the request for the service. */
const forwarding: string[] = [
  '    http-request set-dst var(txn.address)',
  '    http-request set-dst-port var(txn.port)',
  // Removes a token that the gateway has checked.
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
 * One backend for each type of service, so that errors and metrics name the type. HAProxy retries a refused connection,
 * because one of the service's pods may just have ended.
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

/** The message may contain HAProxy expressions: `%[...]`. */
function answer(refusal: HttpRefusal, body = refusalBody(refusal)): string {
  const fields = Object.entries({ 'cache-control': 'no-store', ...refusal.headers })
  return [
    `content-type application/json lf-string ${quoted(body)}`,
    ...fields.map(([name, value]) => `hdr ${name} ${quoted(value)}`),
  ].join(' ')
}

/** Within single quotes, HAProxy's configuration interprets only the quote itself. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
