/** Failures of a call that are errors neither of Postgres nor of the connection. */

/** The result is larger than this server accepts, and a part of it would be useless. Writes were rolled back. */
export class ResultTooLarge extends Error {
  constructor() {
    super('the result is too large; nothing was written')
    this.name = 'ResultTooLarge'
  }
}
