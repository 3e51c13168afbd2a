/**
 * `channel_binding=require` (Postgres manual section 32.1.2): nothing derived from the password is sent until the
 * server offers to prove that it is the end of this TLS connection, and the login only succeeds with that proof.
 */
import type pg from 'pg'

/** The part of `pg`'s client that its types do not declare: its protocol messages are events. */
type Insides = {
  connection: { prependListener(event: string, listener: (message: { mechanisms?: readonly string[] }) => void): void }
}

export class RequiredBinding {
  #isOffered = false
  #isProven = false

  /** Call before connecting. */
  watch(client: pg.Client): void {
    // Depends on pg's internals: the version is pinned, and tested.
    const { connection } = client as unknown as Insides
    connection.prependListener('authenticationSASL', ({ mechanisms = [] }) => {
      this.#isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS')
    })
    // The client itself verifies the proof, and fails if it is wrong.
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
