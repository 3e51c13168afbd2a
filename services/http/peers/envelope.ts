/**
 * A request from one replica to another, encrypted and authenticated as a whole. A process at a stopped replica's
 * address cannot read, answer or replay it.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { RequestHead } from '../message.ts'
import { keyFor, type Process } from './handles.ts'

type Enclosed = { readonly head: RequestHead; readonly body: Buffer }
type Written = RequestHead & { readonly to: string; readonly sentAt: number }

const [nonceBytes, tagBytes, lengthBytes] = [12, 16, 4]
/** The maximum age of an envelope, including the clock difference of two machines. */
const lifetimeMs = 60_000
/** The maximum number of remembered nonces. */
const mostRemembered = 100_000
/** The maximum number of bytes that sealing adds to a body, including the request head. */
export const envelopeBytes = 131_072

export class Envelopes {
  readonly #key: Buffer
  readonly #proofKey: Buffer
  readonly #self: Process
  readonly #now: () => number
  /** Nonces of opened envelopes, oldest first, each with its expiry time. */
  readonly #seen = new Map<string, number>()

  constructor(secret: string, service: string, self: Process, now: () => number = Date.now) {
    this.#key = keyFor(secret, service, 'requests')
    this.#proofKey = keyFor(secret, service, 'answers')
    this.#self = self
    this.#now = now
  }

  seal(to: Process, { head, body }: Enclosed): { readonly bytes: Buffer; isProof(text: unknown): boolean } {
    const written: Written = { ...head, to: to.instance, sentAt: this.#now() }
    const text = Buffer.from(JSON.stringify(written))
    const length = Buffer.alloc(lengthBytes)
    length.writeUInt32BE(text.length)
    const nonce = randomBytes(nonceBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: tagBytes })
    const sealed = [cipher.update(length), cipher.update(text), cipher.update(body), cipher.final()]
    const proof = Buffer.from(this.#proofOf(nonce))
    return {
      bytes: Buffer.concat([nonce, ...sealed, cipher.getAuthTag()]),
      isProof: received => {
        const receivedBytes = Buffer.from(typeof received === 'string' ? received : '')
        return receivedBytes.length === proof.length && timingSafeEqual(receivedBytes, proof)
      },
    }
  }

  /**
   * Returns the content, and the proof that the sender expects. Returns undefined if the envelope is invalid, expired,
   * already opened or for another process. Also returns undefined if too many envelopes were opened in
   * the last two minutes.
   */
  open(bytes: Buffer): (Enclosed & { readonly proof: string }) | undefined {
    if (bytes.length < nonceBytes + lengthBytes + tagBytes) return undefined
    const nonce = bytes.subarray(0, nonceBytes)
    const content = this.#decrypt(bytes, nonce)
    if (content === undefined) return undefined
    const end = lengthBytes + content.readUInt32BE(0)
    // Only replicas have the key, so the JSON is not validated.
    const { to, sentAt, ...head } = JSON.parse(content.subarray(lengthBytes, end).toString()) as Written
    if (to !== this.#self.instance || Math.abs(this.#now() - sentAt) > lifetimeMs) return undefined
    return this.#isNew(nonce.toString('base64url'))
      ? { head, body: content.subarray(end), proof: this.#proofOf(nonce) }
      : undefined
  }

  #decrypt(bytes: Buffer, nonce: Buffer): Buffer | undefined {
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: tagBytes })
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    try {
      return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()])
    } catch {
      return undefined
    }
  }

  #isNew(nonce: string): boolean {
    const now = this.#now()
    for (const [oldest, until] of this.#seen) {
      if (until > now) break
      this.#seen.delete(oldest)
    }
    if (this.#seen.has(nonce) || this.#seen.size >= mostRemembered) return false
    this.#seen.set(nonce, now + 2 * lifetimeMs)
    return true
  }

  #proofOf(nonce: Buffer): string {
    return createHmac('sha256', this.#proofKey).update(nonce).digest('base64url')
  }
}
