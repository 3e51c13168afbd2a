/**
 * The archive of an embedded installation: `espalier archive` in a separate process, with a directory next to the
 * volumes. It starts when the first durable database exists. If a durable database already exists, it starts with the
 * installation. It ends when its standard input closes, so it never outlives this process.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Cluster } from '../../cluster/index.ts'
import { issueServerCertificate } from '../../operator/pki/index.ts'
import type { Trust } from '../../operator/pki/trust.ts'
import { checkout } from '../settings.ts'

type ArchiveOptions = {
  cluster: Cluster
  readTrust: () => Promise<Trust>
  paths: { archive: string; archiveKeys: string; archiveTls: string }
  port: number
  logger: Logger
}

export const archiveHost = '127.0.0.1'
/** How often the archive gets a new certificate: often enough for its expiry and for a replaced authority. */
const renewMs = 3600_000
const restartMs = 2_000
const stopMs = 25_000

/** Creates a key only if the store does not exist yet. @throws if the key of an existing store is missing */
async function ensureKey({ archive, archiveKeys }: ArchiveOptions['paths']): Promise<void> {
  if (existsSync(archiveKeys)) return
  if (existsSync(archive))
    throw new Error(`${archiveKeys} is missing, and ${archive} cannot be read without it: restore it from a copy`)
  await writeFile(archiveKeys, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600, flag: 'wx', flush: true })
}

/** The archive reloads its certificate; each file is replaced completely. */
async function writeCertificate({ readTrust, paths: { archiveTls } }: ArchiveOptions): Promise<void> {
  const trust = await readTrust()
  const { cert, key } = issueServerCertificate(trust, { dnsNames: [], ipAddresses: [archiveHost] })
  await mkdir(archiveTls, { recursive: true, mode: 0o700 })
  for (const [name, text] of Object.entries({ 'ca.crt': trust.accepted, 'tls.key': key, 'tls.crt': cert })) {
    const path = join(archiveTls, name)
    await writeFile(`${path}.new`, text, { mode: 0o600 })
    await rename(`${path}.new`, path)
  }
}

function launch({ paths: { archive, archiveKeys, archiveTls }, port, logger }: ArchiveOptions): ChildProcess {
  const files = ['--certificate', join(archiveTls, 'tls.crt'), '--key', join(archiveTls, 'tls.key')]
  const args = [
    ...['archive', '--store', `file://${encodeURI(archive)}`, '--key-file', archiveKeys, ...files],
    ...['--client-authority', join(archiveTls, 'ca.crt'), '--listen', `${archiveHost}:${port}`, '--until-input-ends'],
  ]
  const { PATH = '' } = process.env
  const child = spawn(process.execPath, [join(checkout, 'bin/espalier.mjs'), ...args], {
    env: { PATH, ESPALIER_LOG: logger.level === 'silent' ? 'fatal' : 'warn' },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  for (const stream of [child.stdout, child.stderr])
    if (stream !== null) createInterface(stream).on('line', line => logger.warn({ line }, 'the archive logged'))
  return child
}

/** Resolves once a durable database exists. Resolves with undefined if the signal aborts first. */
async function firstDurable(cluster: Cluster, signal: AbortSignal): Promise<true | undefined> {
  while (!signal.aborted) {
    const { items, resourceVersion } = await cluster.list('ManagedDatabase')
    if (items.some(({ spec }) => spec.backup.durable)) return true
    try {
      for await (const event of cluster.watch('ManagedDatabase', { resourceVersion, signal }))
        if ('object' in event && event.object.spec.backup.durable) return true
    } catch {
      // The watch ended or expired: list again.
    }
  }
  return undefined
}

export function startArchive(options: ArchiveOptions): { stop(): Promise<void> } {
  const { cluster, paths, logger } = options
  const stopping = new AbortController()
  const { signal } = stopping
  let child: ChildProcess | undefined

  async function serve(): Promise<void> {
    while (!signal.aborted) {
      await writeCertificate(options)
      const started = launch(options)
      child = started
      const renewal = setInterval(() => {
        writeCertificate(options).catch((error: unknown) =>
          logger.error({ err: error }, 'renewing a certificate failed'),
        )
      }, renewMs)
      const code = await new Promise<number | null>(resolve => {
        started.once('error', error => {
          logger.error({ err: error }, 'the archive cannot be started')
          resolve(null)
        })
        started.once('exit', resolve)
      })
      clearInterval(renewal)
      child = undefined
      if (!signal.aborted) logger.error({ code }, 'the archive has ended; it is restarted')
      await delay(restartMs, undefined, { signal }).catch(() => {})
    }
  }

  async function run(): Promise<void> {
    if (!existsSync(paths.archive) && (await firstDurable(cluster, signal)) === undefined) return
    await ensureKey(paths)
    await serve()
  }

  const running = run().catch((error: unknown) => logger.error({ err: error }, 'the archive cannot be started'))
  return {
    stop: async () => {
      stopping.abort()
      child?.kill('SIGTERM')
      const deadline = setTimeout(() => child?.kill('SIGKILL'), stopMs)
      await running
      clearTimeout(deadline)
    },
  }
}
