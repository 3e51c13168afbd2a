/**
 * Ports of this machine: checks a port, reports a port in use in one line, and finds a free range for a temporary
 * installation.
 */
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { EmbeddedError } from './errors.ts'
import type { PortRange } from './settings.ts'

async function listenError(host: string, port: number): Promise<string | undefined> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', error => resolve('code' in error ? String(error.code) : error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
}

/** @throws EmbeddedError if no process can listen on this port of this host */
export async function assertPortFree(host: string, port: number, variable: string): Promise<void> {
  const code = await listenError(host, port)
  if (code === undefined) return
  const why = code === 'EADDRINUSE' ? 'is taken' : `cannot be listened on (${code})`
  throw new EmbeddedError(`port ${port} of ${host} ${why}: set ${variable} to another port`)
}

/** The file with Linux's ports for outgoing connections: `FIRST LAST` (ip-sysctl, `ip_local_port_range`). */
const ephemeralRangeFile = '/proc/sys/net/ipv4/ip_local_port_range'

/**
 * Returns a warning if the kernel uses ports of this range for outgoing connections: a database may then find its port
 * in use. Returns undefined if it does not, or if the file cannot be read.
 */
export async function ephemeralPortsWarning(
  ports: PortRange,
  read: () => Promise<string> = () => readFile(ephemeralRangeFile, 'utf8'),
): Promise<string | undefined> {
  const [first, last] = (await read().catch(() => '')).trim().split(/\s+/).map(Number)
  if (first === undefined || last === undefined || ports.last < first || ports.first > last) return undefined
  const suggestion = first > 1024 + 1000 ? `below ${first}` : `outside ${first}-${last}`
  return `ports ${ports.first}-${ports.last} of ESPALIER_PORTS overlap ${first}-${last}, which the kernel gives to outgoing connections: a database can find its port taken and is degraded (PortInUse) until the port is free; set ESPALIER_PORTS to a range ${suggestion}`
}

/**
 * Returns consecutive free ports, below the ports for outgoing connections. Another process can take them at any time,
 * so callers retry.
 */
export async function findFreeRange(host: string, length: number): Promise<PortRange> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const first = randomInt(20000, 32000 - length)
    const ports = Array.from({ length }, (_, index) => first + index)
    const errors = await Promise.all(ports.map(port => listenError(host, port)))
    if (errors.every(error => error === undefined)) return { first, last: first + length - 1 }
  }
  throw new EmbeddedError(`no ${length} consecutive ports are free on ${host}`)
}
