/**
 * Starts `espalier archive` for benchmarks: a process with a directory as its store, and a second directory with the
 * certificates of one database.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { identityOf } from '../archive/names.ts'
import { createAuthority, issueClientCertificate, issueServerCertificate } from '../operator/pki/index.ts'
import { freePort } from '../operator/postgres/testing/postgres.ts'

type Started = { url: string; tls: string; process: ChildProcess; stop(): Promise<void> }

/** @param store the directory of the objects */
export async function startArchive(root: string, store: string, databaseId: string): Promise<Started> {
  const authority = createAuthority()
  const own = issueServerCertificate(authority, { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] })
  const uris = [identityOf({ databaseId, number: 1 })]
  const client = issueClientCertificate(authority, { commonName: 'bench', uris })
  const tls = join(root, 'tls')
  mkdirSync(tls)
  const file = (name: string, text: string): string => {
    writeFileSync(join(tls, name), text)
    return join(tls, name)
  }
  file('archive.crt', client.cert)
  file('archive.key', client.key)
  const port = await freePort()
  const args = [
    ...['bin/espalier.mjs', 'archive', '--store', `file://${store}`, '--listen', `127.0.0.1:${port}`],
    ...[
      '--key-file',
      file('keys', randomBytes(32).toString('base64')),
      '--client-authority',
      file('ca.crt', authority.cert),
    ],
    ...['--certificate', file('crt', own.cert), '--key', file('key', own.key)],
  ]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.stdout.resume()
  return {
    url: `https://127.0.0.1:${port}`,
    tls,
    process: child,
    async stop() {
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}
