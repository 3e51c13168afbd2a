/** What is wrong with a credential file or with what is to be written to it: said with the file and the rule, never with a secret. */

export class CredentialError extends Error {
  constructor(problem: string) {
    super(problem)
    this.name = 'CredentialError'
  }
}
