/**
 * What callers are told where a database cannot be reached: what kind of fault it is and whether to come again. It tells nothing of how the database is reached: hosts, addresses and
 * the server's own words are in the log alone.
 */

type Unreachable = { readonly message: string; readonly retryable: boolean }

/** Faults of what is configured, by SQLSTATE or by Node's codes. Anything else may be over in a moment. */
const faults: readonly (readonly [code: RegExp, text: string])[] = [
  [/^28/, 'its server refuses the login of this tool server'],
  [/^3D000$/, 'its server has no database of that name'],
  [/^ENOTFOUND$/, 'its host is not known'],
  [/^(SELF_SIGNED|DEPTH_ZERO|UNABLE_TO|CERT_|ERR_TLS|ERR_SSL|ERR_OSSL)/, 'its server cannot be trusted over TLS'],
  [/^open /, 'a file of its settings cannot be read'],
]

/** What an error and those that caused it are known by. */
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
  const help = 'Trying again does not help: whoever runs this tool server finds the reason in its log.'
  return { message: `The database "${database}" cannot be reached: ${fault[1]}. ${help}`, retryable: false }
}
