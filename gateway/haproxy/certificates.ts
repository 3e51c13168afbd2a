/**
 * The certificates of the HTTPS listener. The agent pushes them over HAProxy's runtime API, so that a new or renewed
 * certificate needs no reload: open streams continue, and the next handshake uses the new certificate. The agent writes
 * no private key of a region to a file.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { dirname, join } from 'node:path'
import type { Certificate } from '../../server/certificate.ts'
import type { Paths } from './paths.ts'
import { answerOf } from './push.ts'
import type { RuntimeConnection } from './runtime.ts'

/** Certificates by region. */
export type Certificates = ReadonlyMap<string, Certificate>

/** The certificates of one HAProxy process, as pushed over one connection. */
export class PushedCertificates {
  readonly #connection: RuntimeConnection
  readonly #paths: Paths
  /**
   * Certificates by their names in HAProxy. A name is a path, but a region's certificate has no file. A value is
   * undefined if the certificate was pushed over an earlier connection.
   */
  #pushed: Map<string, Certificate | undefined> | undefined

  constructor(connection: RuntimeConnection, paths: Paths) {
    this.#connection = connection
    this.#paths = paths
  }

  /**
   * Pushes these certificates to HAProxy, and deletes all others. Returns a message for each certificate that HAProxy
   * refused. HAProxy then keeps the previous certificate, if any. @throws RefusedError if the connection has ended
   */
  async push(certificates: Certificates): Promise<string[]> {
    this.#pushed ??= await this.#known()
    const problems: string[] = []
    const wanted = this.#wanted(certificates)
    for (const [name, certificate] of wanted) {
      if (this.#pushed.get(name) === certificate) continue
      const problem = await this.#put(name, certificate)
      if (problem === undefined) this.#pushed.set(name, certificate)
      else problems.push(`${name}: ${problem}`)
    }
    for (const name of [...this.#pushed.keys()].filter(each => !wanted.has(each))) await this.#delete(name)
    return problems
  }

  /** The first region's certificate is also the default, for clients that send no known server name. */
  #wanted(certificates: Certificates): Map<string, Certificate> {
    const regions = [...certificates].sort(([left], [right]) => (left < right ? -1 : 1))
    const first = regions[0]?.[1]
    return new Map([
      ...(first === undefined ? [] : [[this.#paths.defaultCertificate, first] as const]),
      ...regions.map(([region, certificate]) => [nameOf(this.#paths, region), certificate] as const),
    ])
  }

  /**
   * Returns the names of the certificates that were pushed over an earlier connection. Aborts unfinished transactions,
   * and deletes certificates that are not in the crt-list.
   */
  async #known(): Promise<Map<string, undefined>> {
    const stored = (await this.#run('show ssl cert')).split('\n')
    for (const line of stored.filter(each => each.startsWith('*'))) await this.#run(`abort ssl cert ${line.slice(1)}`)
    const listed = (await this.#run(`show ssl crt-list ${this.#paths.certificates}`)).split('\n')
    const own = stored.filter(line => line.startsWith(`${dirname(this.#paths.defaultCertificate)}/`))
    for (const name of own.filter(each => !listed.includes(each))) await this.#run(`del ssl cert ${name}`)
    return new Map(own.filter(each => listed.includes(each)).map(name => [name, undefined]))
  }

  async #put(name: string, certificate: Certificate): Promise<string | undefined> {
    const isNew = this.#pushed?.has(name) === false && name !== this.#paths.defaultCertificate
    if (isNew) await this.#run(`new ssl cert ${name}`)
    const set = await this.#run(`set ssl cert ${name} <<\n${payload(certificate)}\n`)
    const committed = set.startsWith('Transaction ') ? await this.#run(`commit ssl cert ${name}`) : set
    if (!committed.endsWith('Success!')) {
      await this.#run(`abort ssl cert ${name}`)
      if (isNew) await this.#run(`del ssl cert ${name}`)
      return committed
    }
    if (!isNew) return undefined
    const listed = await this.#run(`add ssl crt-list ${this.#paths.certificates} ${name}`)
    if (listed.endsWith('Success!')) return undefined
    await this.#run(`del ssl cert ${name}`)
    return listed
  }

  /** Does not delete the default certificate, because the listener needs one. */
  async #delete(name: string): Promise<void> {
    if (name === this.#paths.defaultCertificate) return
    await this.#run(`del ssl crt-list ${this.#paths.certificates} ${name}`)
    await this.#run(`del ssl cert ${name}`)
    this.#pushed?.delete(name)
  }

  #run(command: string): Promise<string> {
    return answerOf(this.#connection, command)
  }
}

const nameOf = (paths: Paths, region: string): string => join(dirname(paths.defaultCertificate), `region-${region}.pem`)

/** Removes empty lines, because an empty line would end the payload. */
const payload = ({ cert, key }: Certificate): string =>
  `${key}\n${cert}`
    .split('\n')
    .filter(line => line.trim() !== '')
    .join('\n')

/** @throws Error if certificate and key are not PEM, or do not match */
export function checkCertificate({ cert, key }: Certificate): void {
  if (!new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
    throw new Error('the certificate and its key do not match')
}
