/**
 * How far a login has come that goes by in TLS. Lengths and types of TLS records stand in the clear (RFC 8446, section
 * 5.1), and a target that asks for a password by SCRAM speaks three times once TLS is up: it asks, it answers the
 * client's first message, and it lets the client in. That is told by what the target says alone: whatever a client says
 * before TLS, however it cuts its bytes, and however often it has TLS negotiated anew, it comes no nearer to the end.
 */
// @ts-nocheck


const requestLength = 8
const handshake = 0x16
const applicationData = 0x17
const recordHead = 5
/** Alerts and updates of keys are encrypted as data is, and shorter than anything that Postgres says in a login. */
const shortestAnswer = 31
/** The first handshake message of the target, up to the lengths that vary: type and length, version, random. */
const beforeSessionId = 4 + 2 + 32
/** The first byte of every cipher suite that TLS 1.3 has, and of none of those before (RFC 8446, appendix B.4). */
const cipherOfTls13 = 0x13

/** Times that the target speaks from the moment TLS is up. */
export const answersOfLogin = 3

/** Reads the heads of TLS records out of a stream, however it is cut; what they hold it passes over. */
class Records {
  readonly #onRecord: (type: number, length: number) => void
  readonly #head = Buffer.alloc(recordHead)
  #headFilled = 0
  #left = 0

  constructor(onRecord: (type: number, length: number) => void) {
    this.#onRecord = onRecord
  }

  push(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#left > 0) {
        const passed = Math.min(this.#left, bytes.length - at)
        this.#left -= passed
        at += passed
        continue
      }
      const copied = bytes.copy(this.#head, this.#headFilled, at)
      at += copied
      this.#headFilled += copied
      if (this.#headFilled < recordHead) return
      this.#headFilled = 0
      this.#left = this.#head.readUInt16BE(3)
      this.#onRecord(this.#head.readUInt8(0), this.#left)
    }
  }
}

export class LoginProgress {
  /** What the client asked for before TLS: each is answered by one byte. */
  #requests = 0
  #requestFilled = 0
  #clientInTls = false
  readonly #client = new Records(type => {
    if (type === applicationData) this.#clientSpoke = true
  })
  readonly #target = new Records((type, length) => this.#onTargetRecord(type, length))
  #targetPassed = 0
  /** The first bytes of the target's TLS, as far as its choice of a cipher suite. */
  #hello: Buffer | undefined = Buffer.alloc(0)
  #isTls13 = false
  #clientSpoke = false
  #answers = 0

  /** Whether the target has let the client in; false for good of a login that is none by password in TLS. */
  get isOver(): boolean {
    // In TLS 1.3 the target's part of the handshake is encrypted, and looks like an answer.
    return this.#answers >= answersOfLogin + (this.#isTls13 ? 1 : 0)
  }

  /** What the client said. */
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

  /** What the target said. */
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
