/**
 * The certificates mounted into the pod. The agent reads them again at each sample, because the mounted files can
 * change.
 */
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type Certificates = {
  /** The server's certificate and key. All fields are PEM. */
  cert: string
  key: string
  /** The authorities that verify clients and Postgres. */
  ca: string
  /** The agent's login certificate. Undefined if the Secret has none. */
  monitor: { cert: string; key: string } | undefined
}

export function readCertificates(directory: string): Certificates {
  const read = (name: string) => readFileSync(join(directory, name), 'utf8')
  const hasMonitor = existsSync(join(directory, 'monitor.crt'))
  const monitor = hasMonitor ? { cert: read('monitor.crt'), key: read('monitor.key') } : undefined
  return { cert: read('tls.crt'), key: read('tls.key'), ca: read('ca.crt'), monitor }
}

/** The server name of this pod: the first name of its certificate. */
export function nameIn(cert: string): string {
  const [, name] = /(?:^|, )DNS:([^,\s]+)/.exec(new X509Certificate(cert).subjectAltName ?? '') ?? []
  if (name === undefined) throw new Error('the server certificate contains no DNS name')
  return name
}
