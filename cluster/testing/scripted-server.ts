/** For tests: a server on loopback with scripted responses, and its kubeconfig. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { onTestFinished } from 'vitest'
import type { Cluster } from '../index.ts'
import { connectKubernetes, type KubernetesOptions } from '../kubernetes/index.ts'

export type Handler = (request: IncomingMessage, response: ServerResponse) => void

type ScriptedServer = {
  url: string
  directory: string
  /** The number of connections that are open now, and the total number so far. */
  open(): number
  opened(): number
  /** Stops listening and closes every connection. The clients stay open. */
  stop(): Promise<void>
  connect(options?: Partial<KubernetesOptions>): Promise<Cluster & { close(): Promise<void> }>
}

/** Writes a kubeconfig into a directory; `cluster` and `user` are its entries. Returns its path. */
export function writeKubeconfig(directory: string, cluster: object, user: object): string {
  const path = join(directory, 'kubeconfig')
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  writeFileSync(path, JSON.stringify(config))
  return path
}

/**
 * Starts a server on a free port until the test ends, with TLS if a certificate is given. `user` is the kubeconfig's
 * user entry.
 */
export async function startScriptedServer(
  handler: Handler,
  options: { tls?: { cert: string; key: string; ca: string }; user?: object } = {},
): Promise<ScriptedServer> {
  const { tls, user = { token: 'a-token' } } = options
  const server = tls === undefined ? http.createServer(handler) : https.createServer(tls, handler)
  const sockets = new Set<Socket>()
  let opened = 0
  server.on('connection', (socket: Socket) => {
    opened += 1
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  // A server that listens on TCP has an address of this shape.
  const { port } = server.address() as AddressInfo
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
  const directory = mkdtempSync(join(tmpdir(), 'espalier-kubernetes-'))
  const trust =
    tls === undefined
      ? { 'insecure-skip-tls-verify': true }
      : { 'certificate-authority-data': Buffer.from(tls.ca).toString('base64') }
  const kubeconfig = writeKubeconfig(directory, { server: url, ...trust }, user)
  const stop = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  }
  const clients: { close(): Promise<void> }[] = []
  onTestFinished(async () => {
    for (const client of clients) await client.close()
    await stop()
    rmSync(directory, { recursive: true, force: true })
  })
  return {
    url,
    directory,
    stop,
    open: () => sockets.size,
    opened: () => opened,
    connect: async (more = {}) => {
      const client = await connectKubernetes({
        fieldManager: 'test',
        kubeconfig,
        logger: pino({ level: 'silent' }),
        ...more,
      })
      clients.push(client)
      return client
    },
  }
}

/** A Status as kube-apiserver writes it. */
export const statusBody = (code: number, reason: string, message: string, details?: object): string =>
  JSON.stringify({ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, details, code })
