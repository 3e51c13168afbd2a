/**
 * An address for every pod. A runtime reserves one network 127.x.0.0/16 with a listening socket on a fixed address in
 * it. So two runtimes on one machine never share addresses, and the reservation ends with the process. Linux serves all
 * of 127.0.0.0/8 on the loopback device (RFC 1122 3.2.1.3) without configuration.
 */
import { readFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { errorCode, messageOf, RuntimeError } from '../errors.ts'

/** The port of the reserving socket: on 127.x.0.1, which no pod gets. */
const claimPort = 41_137
/** 127.0 belongs to the machine (127.0.0.1, 127.0.1.1, the resolver's 127.0.0.53). */
const firstNetwork = 1
const lastNetwork = 254
const addressesPerNetwork = 65_536
/** 127.x.0.* is for the reservation. The last address is the network's broadcast address. */
const firstAddress = 256

export type AddressPool = {
  /** The second octet of the reserved network. */
  network: number
  /** @throws RuntimeError if all 65,000 are in use */
  allocate(): string
  release(address: string): void
  close(): Promise<void>
}

function listen(network: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer(socket => socket.destroy())
    server.once('error', reject)
    server.listen({ host: `127.${network}.0.1`, port: claimPort, exclusive: true }, () => {
      server.off('error', reject)
      server.unref()
      resolve(server)
    })
  })
}

/** The state of a listening socket in /proc/net/tcp. */
const listening = '0A'

/**
 * The networks in which a process listens. `table`: the content of /proc/net/tcp, whose local addresses are the four
 * bytes of an IPv4 address in hexadecimal, last byte first.
 */
export function networksInUse(table: string): Set<number> {
  const networks = new Set<number>()
  for (const line of table.split('\n').slice(1)) {
    const [, local = '', , state] = line.trim().split(/\s+/)
    if (state === listening && local.slice(6, 8) === '7F') networks.add(Number.parseInt(local.slice(4, 6), 16))
  }
  return networks
}

/**
 * The networks in the order in which a runtime tries them: the preferred one, unused ones, the others. In a network
 * without a reservation, the pods of a runtime that was killed may still run.
 */
async function candidates(preferred: number | undefined): Promise<number[]> {
  const all = Array.from({ length: lastNetwork - firstNetwork + 1 }, (_, index) => firstNetwork + index)
  const inUse = networksInUse(await readFile('/proc/net/tcp', 'utf8').catch(() => ''))
  const rank = (network: number): number => (network === preferred ? 0 : inUse.has(network) ? 2 : 1)
  return all.toSorted((left, right) => rank(left) - rank(right))
}

/**
 * Reserves a network. Prefers `preferred`, so that pods have similar addresses after a restart.
 * @throws RuntimeError `UnsupportedPlatform` if no network can be reserved
 */
export async function claimAddresses(preferred?: number): Promise<AddressPool> {
  if (process.platform !== 'linux') {
    throw new RuntimeError('UnsupportedPlatform', `the embedded runtime needs Linux, this is ${process.platform}`)
  }
  let refusal: unknown
  for (const network of await candidates(preferred)) {
    try {
      return poolOf(network, await listen(network))
    } catch (error) {
      refusal = error
      if (errorCode(error) !== 'EADDRINUSE') break
    }
  }
  throw new RuntimeError(
    'UnsupportedPlatform',
    `no network in 127.0.0.0/8 could be reserved for pods: ${messageOf(refusal)}`,
    { cause: refusal },
  )
}

function poolOf(network: number, claim: Server): AddressPool {
  const used = new Set<number>()
  let next = firstAddress
  return {
    network,
    allocate() {
      // Continues after the last address, because a client may still use a released address.
      for (let tries = firstAddress; tries < addressesPerNetwork; tries += 1) {
        const candidate = next
        next = next + 1 >= addressesPerNetwork - 1 ? firstAddress : next + 1
        if (candidate % 256 === 0 || candidate % 256 === 255 || used.has(candidate)) continue
        used.add(candidate)
        return `127.${network}.${Math.floor(candidate / 256)}.${candidate % 256}`
      }
      throw new RuntimeError('Unsupported', `all pod addresses of 127.${network}.0.0/16 are in use`)
    },
    release(address) {
      const [, , high, low] = address.split('.').map(Number)
      if (high !== undefined && low !== undefined) used.delete(high * 256 + low)
    },
    close: () => new Promise(resolve => claim.close(() => resolve())),
  }
}
