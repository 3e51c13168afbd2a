/**
 * Names that clients hold of what lives in the memory of one process, such as a session. Each carries, sealed, the address of the process that has it, so that another replica can hand a request on to
 * it. Only replicas can make or read the address: no client can send a server anywhere.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import type { PeerSettings } from './types.ts'

/** A process: its address, and what tells it from an earlier one at that address. */
export type Process = { readonly host: string; readonly port: number; readonly instance: string }

/** `owner`: undefined if this process has it, or no replica does. */
export type Place = { readonly inner: string; readonly owner: Process | undefined }

/** Never part of a seal. */
const separator = '~'
const [nonceBytes, tagBytes] = [12, 16]
const longestSeal = 1_000

export const keyFor = (secret: string, service: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, service, `espalier peers: ${purpose}`, 32))

export class Handles {
  readonly self: Process
  readonly #key: Buffer

  /** @param service tells the handles of different servers with one secret apart */
  constructor({ address, secret }: PeerSettings, service: string) {
    this.self = { ...address, instance: randomBytes(9).toString('base64url') }
    this.#key = keyFor(secret, service, 'handles')
  }

  /** The same for the same name each time, so that clients can compare them. */
  mint(kind: string, inner: string): string {
    const { host, port, instance } = this.self
    const payload = JSON.stringify([host, port, instance])
    const bound = Buffer.from(`${kind}\0${inner}`)
    const nonce = createHmac('sha256', this.#key).update(bound).update(`\0${payload}`).digest().subarray(0, nonceBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: tagBytes }).setAAD(bound)
    const sealed = Buffer.concat([nonce, cipher.update(payload, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return inner + separator + sealed.toString('base64url')
  }

  read(kind: string, handle: string): Place {
    const at = handle.lastIndexOf(separator)
    const owner = at === -1 ? undefined : this.#open(kind, handle.slice(0, at), handle.slice(at + 1))
    if (owner === undefined) return { inner: handle, owner: undefined }
    return { inner: handle.slice(0, at), owner: owner.instance === this.self.instance ? undefined : owner }
  }

  #open(kind: string, inner: string, seal: string): Process | undefined {
    if (seal.length > longestSeal) return undefined
    const bytes = Buffer.from(seal, 'base64url')
    // What is decoded leniently must not have two spellings.
    if (bytes.length < nonceBytes + tagBytes || bytes.toString('base64url') !== seal) return undefined
    const options = { authTagLength: tagBytes }
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, nonceBytes), options)
    decipher.setAAD(Buffer.from(`${kind}\0${inner}`)).setAuthTag(bytes.subarray(-tagBytes))
    try {
      const payload = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()])
      // Sealed by a replica.
      const [host, port, instance] = JSON.parse(payload.toString()) as [string, number, string]
      return { host, port, instance }
    } catch {
      return undefined
    }
  }
}
