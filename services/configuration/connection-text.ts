/**
 * Parses Postgres connection strings as far as the configuration needs: their keywords, and their text without secrets.
 * It reads both forms of libpq's documentation ("Connection Strings"): URIs and keyword/value pairs. It does not check
 * the keywords' meaning.
 */

/** The text that replaces secrets in printed configurations. */
export const MASK = '********'

const scheme = 'postgres(?:ql)?://'
const userInfo = '[^:@/?#\\s]*(?::[^@/?#\\s]*)?@'
const host = '(?:\\[[0-9A-Fa-f:.%]+\\]|[^:@\\[\\]/?#,\\s]*)(?::\\d{0,5})?'
const uri = new RegExp(
  `^${scheme}(?:(?<userInfo>${userInfo}))?(?<hosts>${host}(?:,${host})*)(?:/(?<dbname>[^@?#\\s]*))?(?:\\?(?<parameters>[^#\\s]*))?$`,
)
const keyword = /\s*([a-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)/sy
const secretParameters = new Set(['password', 'sslpassword', 'oauth_client_secret'])

type Keyword = { name: string; value: string }

/**
 * Whether libpq would accept the text's form. Unusual characters of a URI must be percent-encoded, so that it is clear
 * where a password ends.
 */
export const isConnectionText = (text: string): boolean => readConnectionText(text) !== undefined

/**
 * The keywords with their decoded values. Omits empty values. `host` and `port` may be lists. Undefined if the text is
 * not a connection string.
 */
export function readConnectionText(text: string): ReadonlyMap<string, string> | undefined {
  try {
    const pairs = new RegExp(`^${scheme}`).test(text) ? uriPairs(text) : parseKeywords(text)?.map(plainPair)
    return pairs && new Map(pairs.filter(([, value]) => value !== ''))
  } catch (error) {
    // A percent sign that encodes nothing.
    if (error instanceof URIError) return undefined
    throw error
  }
}

type Pair = readonly [name: string, value: string]

/** If a keyword appears twice, the last value is used. URI parameters follow the parts that they replace. */
function uriPairs(text: string): Pair[] | undefined {
  const found = uri.exec(text)
  const { userInfo = '', hosts = '', dbname = '', parameters = '' } = found?.groups ?? {}
  const [, user = '', password = ''] = /^([^:]*):?(.*)@$/.exec(userInfo) ?? []
  const ends = hosts.split(',').map(end => /^(?:\[(.*)\]|([^:]*))(?::(\d*))?$/.exec(end) ?? [])
  const parameterTexts = parameters.split('&').filter(part => part !== '')
  if (found === null || !parameterTexts.every(part => /^[^=]+=[^=]*$/.test(part))) return undefined
  const written: Pair[] = [
    ['user', user],
    ['password', password],
    ['host', joined(ends.map(([, bracketed, bare]) => bracketed ?? bare ?? ''))],
    ['port', joined(ends.map(([, , , port]) => port ?? ''))],
    ['dbname', dbname],
    ...parameterTexts.map((part): Pair => [part.slice(0, part.indexOf('=')), part.slice(part.indexOf('=') + 1)]),
  ]
  return written.map(([name, value]) => [decodeURIComponent(name), decodeURIComponent(value)])
}

/** A list of empty entries counts as not set. */
const joined = (entries: readonly string[]): string => (entries.some(entry => entry !== '') ? entries.join(',') : '')

const plainPair = ({ name, value }: Keyword): Pair => [name, value.replace(/^'(.*)'$/s, '$1').replace(/\\(.)/gs, '$1')]

/** The text with every password masked. A text that is not a connection string is masked completely. */
export function maskConnectionText(text: string): string {
  if (!isConnectionText(text)) return MASK
  const keywords = parseKeywords(text)
  if (keywords === undefined) return maskParameters(maskUserInfo(text))
  return keywords.map(({ name, value }) => `${name}=${secretParameters.has(name) ? MASK : value}`).join(' ')
}

/** Matches the password before the host in any URI. */
export function maskUserInfo(text: string): string {
  return text.replace(/^([a-z]+:\/\/[^:@/?#]*:)[^/?#]*@/i, (_, before: string) => `${before}${MASK}@`)
}

function maskParameters(text: string): string {
  return text.replace(/([?&])([^=&]+)=[^&]*/g, (matched, separator: string, name: string) =>
    secretParameters.has(decodeName(name)) ? `${separator}${name}=${MASK}` : matched,
  )
}

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

/** The values are unchanged, including their quotes. */
function parseKeywords(text: string): Keyword[] | undefined {
  const keywords: Keyword[] = []
  let at = 0
  while (text.slice(at).trim() !== '') {
    keyword.lastIndex = at
    const [matched, name, value] = keyword.exec(text) ?? []
    if (matched === undefined || name === undefined || value === undefined) return undefined
    keywords.push({ name, value })
    at += matched.length
  }
  return keywords.length === 0 ? undefined : keywords
}
