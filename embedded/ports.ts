/** Ports of this machine: whether one is free, said in one line, and a free range for an installation of passage. */
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

/** @throws EmbeddedError where nothing can listen on this port of this host */
export async function assertPortFree(host: string, port: number, variable: string): Promise<void> {
  const code = await listenError(host, port)
  if (code === undefined) return
  const why = code === 'EADDRINUSE' ? 'is taken' : `cannot be listened on (${code})`
  throw new EmbeddedError(`port ${port} of ${host} ${why}: set ${variable} to another one`)
}

/** Where Linux says which ports it gives to outgoing connections: `FIRST LAST` (ip-sysctl, `ip_local_port_range`). */
const ephemeralRangeFile = '/proc/sys/net/ipv4/ip_local_port_range'

/**
 * A warning where the kernel gives ports of this range to outgoing connections, so that a database can find its port
 * taken; undefined where it does not, or where that cannot be read.
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
 * So many free ports in a row, below those that the kernel gives to outgoing connections. Free now, that is: whoever
 * needs them for sure retries.
 */
export async function findFreeRange(host: string, length: number): Promise<PortRange> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const first = randomInt(20000, 32000 - length)
    const ports = Array.from({ length }, (_, index) => first + index)
    const errors = await Promise.all(ports.map(port => listenError(host, port)))
    if (errors.every(error => error === undefined)) return { first, last: first + length - 1 }
  }
  throw new EmbeddedError(`no ${length} ports in a row are free on ${host}`)
}
