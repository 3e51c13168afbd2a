/** `espalier gateway`: runs the agent of a gateway replica on Kubernetes, and configures and drains its HAProxy. */
import { hostname } from 'node:os'
import { dirname, isAbsolute, resolve } from 'node:path'
import { pino } from 'pino'
import { connectKubernetes } from '../../cluster/kubernetes/index.ts'
import { followCertificateFiles } from '../../gateway/haproxy/certificate-files.ts'
import { haproxyDefaults } from '../../gateway/haproxy/configuration.ts'
import { drain } from '../../gateway/haproxy/drain.ts'
import type { HttpsOptions } from '../../gateway/haproxy/https.ts'
import { startHaproxyGateway } from '../../gateway/haproxy/index.ts'
import { type PortRange, pathsIn } from '../../gateway/haproxy/paths.ts'
import { writeConfiguration } from '../../gateway/haproxy/write.ts'
import { loginLimits } from '../../gateway/logins.ts'
import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'
import { followCertificate } from '../../server/certificate.ts'
import { startHealthServer } from '../../server/health.ts'
import { metricsPage, processMetrics } from '../../server/metrics.ts'
import { stopSignal } from '../../server/signals.ts'
import { maskCidr } from '../../values/cidr.ts'
import { type Command, logLevel, parseFlags, readCertificateFlags, UsageError } from '../command.ts'

const help = `Runs the agent of a gateway replica on Kubernetes, beside the HAProxy that forwards its connections.

Usage: espalier gateway --socket FILE --certificate FILE --key FILE --ports FIRST-LAST [options]
       espalier gateway configuration --directory DIRECTORY --ports FIRST-LAST [options]
       espalier gateway drain --socket FILE

The agent:
  --socket FILE        HAProxy's runtime API; its map files are in the same directory
  --deny-socket FILE   where HAProxy forwards refused connections (default: deny.sock in the same directory)
  --certificate FILE   PEM certificate for refused connections; reloaded when it changes
  --key FILE           its private key, PEM
  --ports FIRST-LAST   the ports that HAProxy listens on
  --https-certificates DIRECTORY
                       HAProxy serves HTTPS with the regions' certificates in this directory, named
                       REGION.crt and REGION.key; reloaded when they change (default: no HTTPS)
  --http HOST:PORT     /healthz, /readyz and /metrics (default: 0.0.0.0:8080)
  --kubeconfig FILE    access to the cluster (default: the pod's own credentials, then ~/.kube/config)
  --identity NAME      the name of this replica in its lease (default: the host's name)

configuration: writes haproxy.cfg and empty map files, before HAProxy starts
  --directory DIRECTORY          where to write; the sockets will be there too
  --ports FIRST-LAST             the ports to listen on
  --proxy-protocol-from CIDRS    load balancers that use PROXY protocol, separated by commas (default: none)
  --https-port N                 the port for HTTPS requests to services (default: none)
  --max-https-connections N      limit for all connections to that port (default: half of --max-connections)
  --max-connections N            limit for all routes together (default: ${haproxyDefaults.maxConnections})
  --max-connections-per-route N  limit for one route (default: ${haproxyDefaults.maxConnectionsPerRoute})
  --max-logins-per-address N     concurrent logins from one address to one route (default: ${loginLimits.perAddress})
  --max-logins-per-route N       concurrent logins to one route (default: ${loginLimits.perRoute})
  --threads N                    threads of HAProxy (default: ${haproxyDefaults.threads})
  --operations-port N            HAProxy's own /healthz and /metrics (default: ${haproxyDefaults.operationsPort})
  --host ADDRESS                 the address to listen on (default: ${haproxyDefaults.host})

drain: waits until HAProxy accepts no connections and all sessions have ended

Environment: ESPALIER_LOG, the log level (default: info).`

const required = (flag: string, value: string | undefined): string => {
  if (value === undefined) throw new UsageError(`${flag} is required`)
  return value
}

const integer = (flag: string, text: string, highest: number): number => {
  const number = /^[0-9]{1,9}$/.test(text) ? Number(text) : 0
  if (number < 1 || number > highest) throw new UsageError(`${flag}: must be a whole number from 1 to ${highest}`)
  return number
}

const portRange = (text: string | undefined): PortRange => {
  const [, first, last] = /^([0-9]{1,5})-([0-9]{1,5})$/.exec(required('--ports', text)) ?? []
  const range = { first: Number(first), last: Number(last) }
  if (range.first >= 1 && range.first <= range.last && range.last <= 65_535) return range
  throw new UsageError('--ports: must be FIRST-LAST, for example 30000-30099')
}

const hostAndPort = (flag: string, text: string): { host: string; port: number } => {
  const [, host = '', port = ''] = /^(.+):([0-9]{1,5})$/.exec(text) ?? []
  if (host === '') throw new UsageError(`${flag}: must be HOST:PORT`)
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: integer(flag, port, 65_535) }
}

/** A path that needs no quoting in HAProxy's configuration. */
const plainPath = (flag: string, text: string): string => {
  const path = isAbsolute(text) ? text : resolve(text)
  if (!/^[\w./+@-]+$/.test(path)) throw new UsageError(`${flag}: may contain only letters, digits and _ . / + @ -`)
  return path
}

async function configuration(args: string[]): Promise<number> {
  const flags = parseFlags(args, {
    directory: { type: 'string' },
    ports: { type: 'string' },
    host: { type: 'string', default: haproxyDefaults.host },
    'https-port': { type: 'string' },
    'max-https-connections': { type: 'string' },
    'proxy-protocol-from': { type: 'string', default: '' },
    'max-connections': { type: 'string', default: String(haproxyDefaults.maxConnections) },
    'max-connections-per-route': { type: 'string', default: String(haproxyDefaults.maxConnectionsPerRoute) },
    'max-logins-per-address': { type: 'string', default: String(loginLimits.perAddress) },
    'max-logins-per-route': { type: 'string', default: String(loginLimits.perRoute) },
    threads: { type: 'string', default: String(haproxyDefaults.threads) },
    'operations-port': { type: 'string', default: String(haproxyDefaults.operationsPort) },
  })
  if (maskCidr(flags.host) !== `${flags.host}/32`) throw new UsageError('--host: must be an IPv4 address')
  const balancers = flags['proxy-protocol-from'].split(',').filter(text => text !== '')
  const ports = portRange(flags.ports)
  const operationsPort = integer('--operations-port', flags['operations-port'], 65_535)
  if (operationsPort >= ports.first && operationsPort <= ports.last) {
    throw new UsageError('--operations-port: must not be one of --ports')
  }
  const maxConnections = integer('--max-connections', flags['max-connections'], 1_000_000)
  await writeConfiguration({
    https: httpsOptions(flags['https-port'], flags['max-https-connections'], maxConnections, [ports, operationsPort]),
    paths: pathsIn(plainPath('--directory', required('--directory', flags.directory))),
    host: flags.host,
    ports,
    proxyProtocolFrom: balancers.map(text => {
      const cidr = maskCidr(text.trim())
      if (cidr === undefined)
        throw new UsageError(`--proxy-protocol-from: ${JSON.stringify(text)} is not an IPv4 CIDR block`)
      return cidr
    }),
    maxConnections,
    maxConnectionsPerRoute: integer('--max-connections-per-route', flags['max-connections-per-route'], 1_000_000),
    logins: {
      ...loginLimits,
      perAddress: integer('--max-logins-per-address', flags['max-logins-per-address'], 10_000),
      perRoute: integer('--max-logins-per-route', flags['max-logins-per-route'], 10_000),
    },
    threads: integer('--threads', flags.threads, 64),
    operationsPort,
  })
  return 0
}

function httpsOptions(
  portText: string | undefined,
  connections: string | undefined,
  maxConnections: number,
  [ports, operationsPort]: [PortRange, number],
): HttpsOptions | undefined {
  if (portText === undefined) {
    if (connections !== undefined) throw new UsageError('--max-https-connections: requires --https-port')
    return undefined
  }
  const port = integer('--https-port', portText, 65_535)
  if (port === operationsPort || (port >= ports.first && port <= ports.last)) {
    throw new UsageError('--https-port: must not be one of --ports, nor --operations-port')
  }
  return {
    port,
    maxConnections:
      connections === undefined
        ? Math.ceil(maxConnections / 2)
        : integer('--max-https-connections', connections, 1_000_000),
    placeholder: issueServerCertificate(createAuthority(), { dnsNames: ['espalier.invalid'] }),
  }
}

async function waitForSessions(args: string[]): Promise<number> {
  const flags = parseFlags(args, { socket: { type: 'string' } })
  await drain(pathsOf(required('--socket', flags.socket)))
  return 0
}

const pathsOf = (socket: string) => {
  const path = plainPath('--socket', socket)
  return { ...pathsIn(dirname(path)), runtime: path }
}

async function runAgent(args: string[]): Promise<number> {
  const flags = parseFlags(args, {
    socket: { type: 'string' },
    'deny-socket': { type: 'string' },
    certificate: { type: 'string' },
    key: { type: 'string' },
    ports: { type: 'string' },
    'https-certificates': { type: 'string' },
    http: { type: 'string', default: '0.0.0.0:8080' },
    kubeconfig: { type: 'string' },
    identity: { type: 'string', default: hostname() },
  })
  const paths = pathsOf(required('--socket', flags.socket))
  const refusals = flags['deny-socket'] === undefined ? paths.refusals : resolve(flags['deny-socket'])
  const files = {
    cert: required('--certificate', flags.certificate),
    key: required('--key', flags.key),
  }
  const ports = portRange(flags.ports)
  const http = hostAndPort('--http', flags.http)
  const certificate = await readCertificateFlags(files)
  const directory = flags['https-certificates']

  const logger = pino({ level: logLevel('info') })
  const stopped = stopSignal()
  const cluster = await connectKubernetes({ fieldManager: 'espalier-gateway', kubeconfig: flags.kubeconfig, logger })
  const gateway = await startHaproxyGateway({
    cluster,
    identity: flags.identity,
    paths: { ...paths, refusals },
    ports,
    https: directory !== undefined,
    certificate,
    logger,
  })
  const following = followCertificate({ files, current: certificate, use: gateway.setCertificate, logger })
  const httpsFollowing =
    directory === undefined
      ? undefined
      : followCertificateFiles({ directory, use: gateway.setHttpsCertificates, logger })
  const health = await startHealthServer({
    ...http,
    live: {},
    ready: { gateway: gateway.problem },
    metrics: metricsPage(() => [processMetrics(), gateway.registry]),
    logger,
  })
  logger.info({ identity: flags.identity, ports: flags.ports, http: flags.http }, 'the gateway agent has started')
  await stopped
  logger.info('the gateway agent is stopping')
  await gateway.stop()
  following.stop()
  httpsFollowing?.stop()
  await health.stop()
  await cluster.close()
  return 0
}

const command: Command = {
  help,
  async run(args) {
    const [first, ...rest] = args
    if (first === 'configuration') return await configuration(rest)
    if (first === 'drain') return await waitForSessions(rest)
    return await runAgent(args)
  },
}
export default command
