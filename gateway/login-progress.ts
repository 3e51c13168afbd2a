/**
 * Tracks the progress of a login inside TLS. Lengths and types of TLS records are not encrypted (RFC 8446, section
 * 5.1). A target that authenticates by SCRAM sends three messages once TLS is established: its request, its answer to
 * the client's first message, and the success. Only the target's messages count. A client makes no progress with data
 * before TLS, with another split of its bytes, or with renegotiation of TLS.
 */

const requestLength = 8
const handshake = 0x16
const applicationData = 0x17
const recordHead = 5
/**
 * The shortest answer that counts. Alerts and key updates are encrypted like data, and shorter than any Postgres
 * message in a login.
 */
const shortestAnswer = 31
/** The target's first handshake message, up to its variable part: type and length, version, random. */
const beforeSessionId = 4 + 2 + 32
/**
 * The first byte of every TLS 1.3 cipher suite. No cipher suite of earlier versions begins with it (RFC 8446, appendix
 * B.4).
 */
const cipherOfTls13 = 0x13

/** Messages of the target after TLS is established. */
export const answersOfLogin = 3

/** Reads the headers of TLS records in a stream, for any split. Skips their content. */
class Records {
  readonly #onRecord: (type: number, length: number) => void
  readonly #head = Buffer.alloc(recordHead)
  #headFilled = 0
  #remaining = 0

  constructor(onRecord: (type: number, length: number) => void) {
    this.#onRecord = onRecord
  }

  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#remaining > 0) {
        const passed = Math.min(this.#remaining, bytes.length - at)
        this.#remaining -= passed
        at += passed
        continue
      }
      const copied = bytes.copy(this.#head, this.#headFilled, at)
      at += copied
      this.#headFilled += copied
      if (this.#headFilled < recordHead) return
      this.#headFilled = 0
      this.#remaining = this.#head.readUInt16BE(3)
      this.#onRecord(this.#head.readUInt8(0), this.#remaining)
    }
  }
}

export class LoginProgress {
  /** The client's requests before TLS. The target answers each of them with one byte. */
  #requests = 0
  #requestFilled = 0
  #clientInTls = false
  readonly #client = new Records(type => {
    if (type === applicationData) this.#clientSpoke = true
  })
  readonly #target = new Records((type, length) => this.#onTargetRecord(type, length))
  #targetPassed = 0
  /** The start of the target's TLS, up to its choice of a cipher suite. */
  #hello: Buffer | undefined = Buffer.alloc(0)
  #isTls13 = false
  #clientSpoke = false
  #answers = 0

  /** Whether the target has accepted the client. Always false for a login that does not use a password inside TLS. */
  get isOver(): boolean {
    // In TLS 1.3, the target's part of the handshake is encrypted, so it counts like an answer.
    return this.#answers >= answersOfLogin + (this.#isTls13 ? 1 : 0)
  }

  /** Reads the client's bytes. */
  client(bytes: Buffer): void {
    let at = 0
    while (!this.#clientInTls && at < bytes.length) {
      if (this.#requestFilled === 0 && bytes[at] === handshake) this.#clientInTls = true
      else {
        const passed = Math.min(requestLength - this.#requestFilled, bytes.length - at)
        at += passed
        this.#requestFilled = (this.#requestFilled + passed) % requestLength
        if (this.#requestFilled === 0) this.#requests++
      }
    }
    if (this.#clientInTls) this.#client.push(bytes.subarray(at))
  }

  /** Reads the target's bytes. */
  target(bytes: Buffer): void {
    if (!this.#clientInTls) {
      this.#targetPassed += bytes.length
      return
    }
    const plain = Math.min(Math.max(0, this.#requests - this.#targetPassed), bytes.length)
    this.#targetPassed += plain
    const secured = bytes.subarray(plain)
    this.#readHello(secured)
    this.#target.push(secured)
  }

  #readHello(bytes: Buffer): void {
    if (this.#hello === undefined) return
    this.#hello = Buffer.concat([this.#hello, bytes.subarray(0, 128)])
    const sessionId = this.#hello[recordHead + beforeSessionId]
    const cipher = sessionId === undefined ? undefined : this.#hello[recordHead + beforeSessionId + 1 + sessionId]
    if (cipher === undefined) return
    this.#isTls13 = cipher === cipherOfTls13
    this.#hello = undefined
  }

  #onTargetRecord(type: number, length: number): void {
    if (type !== applicationData || length < shortestAnswer) return
    if (this.#answers > 0 && !this.#clientSpoke) return
    this.#clientSpoke = false
    this.#answers++
  }
}
