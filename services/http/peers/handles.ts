/**
 * Handles for state in one process's memory, such as a session. Each handle contains the encrypted address of the
 * process that has the state. So another replica can forward a request to that process. Only replicas can create or
 * read the address: a client cannot direct a server to an address of its choice.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import type { PeerSettings } from './types.ts'

/** A process: its address, and an id that differs from the ids of earlier processes at that address. */
export type Process = { readonly host: string; readonly port: number; readonly instance: string }

/** `inner`: the text in the handle. `owner`: undefined if this process is the owner, or if the handle names none. */
export type HandleContent = { readonly inner: string; readonly owner: Process | undefined }

/** Separates the inner handle and the encrypted address. Base64url does not contain this character. */
const separator = '~'
const [nonceBytes, tagBytes] = [12, 16]
const longestSeal = 1_000

export const keyFor = (secret: string, service: string, purpose: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, service, `espalier peers: ${purpose}`, 32))

export class Handles {
  readonly self: Process
  readonly #key: Buffer

  /** @param service distinguishes the handles of different servers that share a secret */
  constructor({ address, secret }: PeerSettings, service: string) {
    this.self = { ...address, instance: randomBytes(9).toString('base64url') }
    this.#key = keyFor(secret, service, 'handles')
  }

  /** Returns the same handle for the same state, so that clients can compare handles. */
  mint(kind: string, inner: string): string {
    const { host, port, instance } = this.self
    const payload = JSON.stringify([host, port, instance])
    const bound = Buffer.from(`${kind}\0${inner}`)
    const nonce = createHmac('sha256', this.#key).update(bound).update(`\0${payload}`).digest().subarray(0, nonceBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: tagBytes }).setAAD(bound)
    const sealed = Buffer.concat([nonce, cipher.update(payload, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return inner + separator + sealed.toString('base64url')
  }

  read(kind: string, handle: string): HandleContent {
    const at = handle.lastIndexOf(separator)
    const owner = at === -1 ? undefined : this.#open(kind, handle.slice(0, at), handle.slice(at + 1))
    if (owner === undefined) return { inner: handle, owner: undefined }
    return { inner: handle.slice(0, at), owner: owner.instance === this.self.instance ? undefined : owner }
  }

  #open(kind: string, inner: string, seal: string): Process | undefined {
    if (seal.length > longestSeal) return undefined
    const bytes = Buffer.from(seal, 'base64url')
    // The base64url decoder accepts several spellings of the same bytes. Only the canonical spelling is valid.
    if (bytes.length < nonceBytes + tagBytes || bytes.toString('base64url') !== seal) return undefined
    const options = { authTagLength: tagBytes }
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, nonceBytes), options)
    decipher.setAAD(Buffer.from(`${kind}\0${inner}`)).setAuthTag(bytes.subarray(-tagBytes))
    try {
      const payload = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()])
      // Only replicas have the key, so the JSON is not validated.
      const [host, port, instance] = JSON.parse(payload.toString()) as [string, number, string]
      return { host, port, instance }
    } catch {
      return undefined
    }
  }
}
