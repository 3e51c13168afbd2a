/**
 * An error of a credential file or of a change to it. The message names the file and the rule, and never contains a
 * secret.
 */

export class CredentialError extends Error {
  constructor(problem: string) {
    super(problem)
    this.name = 'CredentialError'
  }
}
