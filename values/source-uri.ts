/**
 * The URI of the Postgres that is the source of an import. It accepts a subset of libpq's URIs. API and operator share
 * it.
 */

type SourceUri = {
  host: string
  port: number
  database: string
  user: string
  password: string
  sslmode: 'disable' | 'require' | 'verify-ca' | 'verify-full'
  channelBinding?: 'disable' | 'prefer' | 'require'
}

export const longestSourceUri = 2_000

/** @throws Error that names the violated rule. Its message contains no part of the URI that may be secret */
export function parseSourceUri(text: string): SourceUri {
  if (text.length > longestSourceUri) throw new Error(`must have at most ${longestSourceUri} characters`)
  if (!/^postgres(?:ql)?:\/\//.test(text)) throw new Error('must begin with "postgresql://"')
  const [, authority = ''] = /^[a-z]+:\/\/([^/?#]*)/.exec(text) ?? []
  if (authority.slice(authority.lastIndexOf('@') + 1).includes(',')) throw new Error('must name one host')
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new Error(
      'is not a URI: characters of user and password other than letters and digits must be percent-encoded',
    )
  }
  if (url.hash !== '') throw new Error('must not have a fragment: encode "#" as %23')
  const host = decoded('host', url.hostname).replace(/^\[(.*)\]$/, '$1')
  if (!/^[A-Za-z0-9][-A-Za-z0-9._:]{0,252}$/.test(host) && !/^[0-9a-fA-F:.]{2,45}$/.test(host))
    throw new Error('must name a host: a domain name or an address, not a socket')
  const database = decoded('database', url.pathname.slice(1))
  const user = decoded('user', url.username)
  const password = decoded('password', url.password)
  const named = { user, password, database }
  for (const [name, value] of Object.entries(named)) if (value === '') throw new Error(`must have a ${name}`)
  if (database.includes('=')) throw new Error('must have a database without "="')
  return { host, port: url.port === '' ? 5432 : Number(url.port), ...named, ...parametersOf(url.searchParams) }
}

function decoded(name: string, text: string): string {
  let value: string
  try {
    value = decodeURIComponent(text)
  } catch {
    throw new Error(`has a ${name} with a "%" that starts no code: encode "%" as %25`)
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the check refuses control characters
  if (/[\u0000-\u001f\u007f]/.test(value)) throw new Error(`has a ${name} with a control character`)
  return value
}

const sslmodes = ['disable', 'require', 'verify-ca', 'verify-full'] as const
const bindings = ['disable', 'prefer', 'require'] as const

/** Parameters without an effect on an import. */
const ignored = ['application_name', 'connect_timeout', 'target_session_attrs']

function parametersOf(parameters: URLSearchParams): Pick<SourceUri, 'sslmode' | 'channelBinding'> {
  const known = ['sslmode', 'channel_binding', ...ignored]
  for (const name of parameters.keys())
    if (!known.includes(name)) throw new Error(`has an unknown parameter; known parameters: ${known.join(', ')}`)
  const mode = parameters.get('sslmode') ?? 'require'
  const sslmode = sslmodes.find(accepted => accepted === mode)
  if (sslmode === undefined) throw new Error(`must have an sslmode of ${sslmodes.join(', ')}`)
  const binding = parameters.get('channel_binding')
  const channelBinding = bindings.find(accepted => accepted === binding)
  if (binding !== null && channelBinding === undefined)
    throw new Error(`must have a channel_binding of ${bindings.join(', ')}`)
  return { sslmode, ...(channelBinding === undefined ? {} : { channelBinding }) }
}
