/**
 * `channel_binding=require` (Postgres manual section 32.1.2): nothing made of the password leaves before the server has offered to prove that it ends the very TLS
 * connection that it is asked over, and nothing is taken for a login until it has.
 */
// @ts-nocheck

import type pg from 'pg'

/** What of `pg`'s client is used that its types do not name: its protocol messages are events. */
type Insides = {
  connection: { prependListener(event: string, listener: (message: { mechanisms?: readonly string[] }) => void): void }
}

export class RequiredBinding {
  #isOffered = false
  #isProven = false

  /** Before it connects. */
  watch(client: pg.Client): void {
    // A boundary with pg's insides: version-pinned, and tested against it.
    const { connection } = client as unknown as Insides
    connection.prependListener('authenticationSASL', ({ mechanisms = [] }) => {
      this.#isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS')
    })
    // The client itself compares the proof, and fails where it is wrong.
    connection.prependListener('authenticationSASLFinal', () => {
      this.#isProven = this.#isOffered
    })
  }

  /** @throws Error before the password may be used, where the server asks for it in another way */
  checkOffer(): void {
    if (!this.#isOffered)
      throw new Error('the server does not offer channel binding, which channel_binding=require asks for')
  }

  /** @throws Error once connected, where the server let the client in without proof */
  checkProof(): void {
    if (!this.#isProven) throw new Error('the server did not bind the channel, which channel_binding=require asks for')
  }
}
