/**
 * Messages for callers when a database cannot be reached: the kind of fault, and whether to retry. Only the log
 * contains hosts, addresses and the server's own messages.
 */

type Unreachable = { readonly message: string; readonly retryable: boolean }

/** Faults in the configuration, by SQLSTATE or Node's error code. Other faults may be temporary. */
const faults: readonly (readonly [code: RegExp, text: string])[] = [
  [/^28/, 'its server refuses the login of this tool server'],
  [/^3D000$/, 'its server has no database of that name'],
  [/^ENOTFOUND$/, 'its host is not known'],
  [/^(SELF_SIGNED|DEPTH_ZERO|UNABLE_TO|CERT_|ERR_TLS|ERR_SSL|ERR_OSSL)/, 'its server cannot be verified over TLS'],
  [/^open /, 'a file of its settings cannot be read'],
]

/** The codes of an error and of its causes. */
function codesOf(error: unknown): string[] {
  if (!(error instanceof Error)) return []
  const text = (name: string) => {
    const value: unknown = Reflect.get(error, name)
    return typeof value === 'string' ? value : ''
  }
  const own = text('syscall') === 'open' ? `open ${text('code')}` : text('code')
  return [text('sqlState'), own, ...codesOf(error.cause)]
}

export function unreachable(database: string, error: unknown): Unreachable {
  const codes = codesOf(error)
  const fault = faults.find(([pattern]) => codes.some(code => pattern.test(code)))
  if (fault === undefined) {
    return { message: `The database "${database}" cannot be reached. Try again in a moment.`, retryable: true }
  }
  const help = 'Retrying does not help: the log of this tool server has the reason for its administrator.'
  return { message: `The database "${database}" cannot be reached: ${fault[1]}. ${help}`, retryable: false }
}
