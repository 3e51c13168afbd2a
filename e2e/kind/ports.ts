/**
 * The ports of this machine that map into the cluster. Each port has the same number outside and inside, because
 * HAProxy identifies a database by the dialled port. NodePorts are 30000 to 32767 (Kubernetes' default range).
 */
import { createServer } from 'node:net'
import { z } from 'zod'
import { KindError } from './errors.ts'

const first = 30_000
const last = 32_767
/** Maximum number of databases. */
export const gatewayPortCount = 20
/** The API and S3, before the databases' ports, and HTTPS after them. */
const length = 3 + gatewayPortCount

const port = z.int().min(1).max(65535)
export const clusterPorts = z.strictObject({
  api: port,
  s3: port,
  gateway: z.strictObject({ first: port, last: port }),
  https: port,
})
export type ClusterPorts = z.output<typeof clusterPorts>

export const portsFrom = (start: number): ClusterPorts => ({
  api: start,
  s3: start + 1,
  gateway: { first: start + 2, last: start + 1 + gatewayPortCount },
  https: start + 2 + gatewayPortCount,
})

export const everyPort = ({ api, s3, gateway, https }: ClusterPorts): number[] => [
  api,
  s3,
  ...Array.from({ length: gateway.last - gateway.first + 1 }, (_, index) => gateway.first + index),
  https,
]

const isPortFree = (number: number): Promise<boolean> =>
  new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ host: '127.0.0.1', port: number, exclusive: true }, () => server.close(() => resolve(true)))
  })

/** Finds consecutive free ports. @throws KindError if there are none */
export async function findPorts(isFree: (port: number) => Promise<boolean> = isPortFree): Promise<ClusterPorts> {
  for (let start = first; start + length - 1 <= last; start += length) {
    const ports = portsFrom(start)
    const free = await Promise.all(everyPort(ports).map(isFree))
    if (free.every(Boolean)) return ports
  }
  throw new KindError(`there is no run of ${length} free ports from ${first} to ${last} on 127.0.0.1`)
}
