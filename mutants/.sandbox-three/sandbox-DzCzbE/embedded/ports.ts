/** Ports of this machine: whether one is free, said in one line, and a free range for an installation of passage. */
// @ts-nocheck

import { randomInt } from 'node:crypto'
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
