/** The certificates mounted into the pod. They are read before each use, because the mounted files can change. */
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type Certificates = {
  /** The server's certificate in PEM, and the authorities that verify clients. */
  cert: string
  key: string
  ca: string
  /** The agent's login certificate. A Secret issued before agents existed has none. */
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
  if (name === undefined) throw new Error('the certificate of the server contains no host name')
  return name
}
