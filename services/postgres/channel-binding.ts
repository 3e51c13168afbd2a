/**
 * `channel_binding=require` (Postgres manual, section 32.1.2). The client sends nothing derived from the password until
 * the server offers to prove that it is the end of this TLS connection. The login succeeds only with that proof.
 */
import type pg from 'pg'

/** The part of `pg`'s client that its types do not declare: its protocol messages are events. */
type Insides = {
  connection: { prependListener(event: string, listener: (message: { mechanisms?: readonly string[] }) => void): void }
}

export class RequiredBinding {
  #isOffered = false
  #isProven = false

  /** The caller calls this before it connects. */
  watch(client: pg.Client): void {
    // Depends on pg's internals. The version is pinned, and a test covers this.
    const { connection } = client as unknown as Insides
    connection.prependListener('authenticationSASL', ({ mechanisms = [] }) => {
      this.#isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS')
    })
    // The client itself verifies the proof, and fails if the proof is wrong.
    connection.prependListener('authenticationSASLFinal', () => {
      this.#isProven = this.#isOffered
    })
  }

  /** @throws Error before the password is used, if the server requests another authentication method */
  checkOffer(): void {
    if (!this.#isOffered)
      throw new Error('the server does not offer channel binding, which channel_binding=require requires')
  }

  /** @throws Error after connecting, if the server accepted the client without proof */
  checkProof(): void {
    if (!this.#isProven) throw new Error('the server did not bind the channel, which channel_binding=require requires')
  }
}
