/**
 * The archive of one server, in memory, with the part of its API that a recovery reads. A test can damage, hide and
 * delay objects.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { partBytes } from '../../../archive/backup/record.ts'
import type { BaseBackupEvent, WalPosition } from '../../replication/base-backup.ts'

export type FakeArchive = {
  readonly url: string
  /** Objects by the path below `/v1/<id>/<incarnation>/`. */
  readonly objects: Map<string, Buffer>
  /** Names of read objects, in order. */
  readonly reads: string[]
  /** Stores a base backup. @returns its end position */
  addBackup(id: string, events: AsyncIterable<BaseBackupEvent>): Promise<WalPosition>
  /** Stores the complete segments of a directory. */
  addWal(directory: string): void
  /** Returns the response for a name that replaces the real response; undefined for the real response. */
  intercept: ((name: string) => { status: number; body: string } | undefined) | undefined
  close(): void
}

const contentOf = (bytes: Buffer) => ({ sha256: createHash('sha256').update(bytes).digest('hex'), size: bytes.length })

/** @param certificates the server's certificates; `ca` issues the clients' certificates */
export async function startFakeArchive(
  prefix: string,
  certificates: { cert: string; key: string; ca: string },
): Promise<FakeArchive> {
  const objects = new Map<string, Buffer>()
  const reads: string[] = []
  const intercepted = { intercept: undefined } as Pick<FakeArchive, 'intercept'>
  const server = createServer({ ...certificates, requestCert: true, rejectUnauthorized: true }, (request, response) => {
    const name = (request.url ?? '').slice(`/v1/${prefix}/`.length)
    reads.push(name)
    const other = intercepted.intercept?.(name)
    const bytes = objects.get(name)
    if (other !== undefined) return void response.writeHead(other.status).end(other.body)
    if (bytes === undefined) return void response.writeHead(404).end()
    const digest = createHash('sha256').update(bytes).digest('base64')
    response.writeHead(200, { 'content-length': bytes.length, 'content-digest': `sha-256=:${digest}:` }).end(bytes)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server's address is an AddressInfo
  return Object.assign(intercepted, {
    url: `https://127.0.0.1:${port}`,
    objects,
    reads,
    addBackup: (id: string, events: AsyncIterable<BaseBackupEvent>) => addBackup(objects, id, events),
    addWal: (directory: string) => {
      for (const file of readdirSync(directory))
        if (/^[0-9A-F]{24}$/.test(file)) objects.set(`wal/${file}`, readFileSync(join(directory, file)))
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  })
}

async function addBackup(
  objects: Map<string, Buffer>,
  id: string,
  events: AsyncIterable<BaseBackupEvent>,
): Promise<WalPosition> {
  const chunks: { data: Buffer[]; manifest: Buffer[] } = { data: [], manifest: [] }
  let into: Buffer[] = chunks.data
  let end: WalPosition | undefined
  for await (const event of events) {
    if (event.kind === 'manifest') into = chunks.manifest
    if (event.kind === 'data') into.push(Buffer.from(event.bytes))
    if (event.kind === 'ended') end = event.at
  }
  if (end === undefined) throw new Error('the backup has no end')
  const data = Buffer.concat(chunks.data)
  const manifest = Buffer.concat(chunks.manifest)
  const parts = Array.from({ length: Math.ceil(data.length / partBytes) }, (_, index) =>
    data.subarray(index * partBytes, (index + 1) * partBytes),
  )
  for (const [index, part] of parts.entries()) objects.set(`backups/${id}/parts/${index + 1}`, part)
  objects.set(`backups/${id}/manifest`, manifest)
  const record = { version: 1, start: end, end, parts: parts.map(contentOf), manifest: contentOf(manifest) }
  objects.set(`backups/${id}/record`, Buffer.from(JSON.stringify(record)))
  return end
}
