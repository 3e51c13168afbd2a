/** Failures of a call that are neither errors of Postgres nor of the connection. */

/** The result is larger than this server accepts, and a part of it would be of no use. Writes have been rolled back. */
export class ResultTooLarge extends Error {
  constructor() {
    super('the result is too large; nothing was written')
    this.name = 'ResultTooLarge'
  }
}
