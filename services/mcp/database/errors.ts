/** What a call fails with that is neither Postgres's refusal nor a missing connection. */

/** What came back is more than this server takes at once, and half of it is of no use. Whatever was written has been taken back. */
export class ResultTooLarge extends Error {
  constructor() {
    super('what it returns is too large to be taken at once; nothing was written')
    this.name = 'ResultTooLarge'
  }
}
