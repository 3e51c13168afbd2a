/** Errors that prevent the start. Each names the key to fix. */

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program uses this port',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this account has no permission',
  ENOENT: 'there is no such file',
  EISDIR: 'it is a directory',
}

export class StartError extends Error {
  constructor(problem: string, cause: unknown) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined
    const reason = code === undefined ? undefined : (reasons[code] ?? code)
    super(reason === undefined ? problem : `${problem}: ${reason}`, { cause })
    this.name = 'StartError'
  }
}
