/** An error of a credential file or of a change to it: names the file and the rule, never a secret. */

export class CredentialError extends Error {
  constructor(problem: string) {
    super(problem)
    this.name = 'CredentialError'
  }
}
