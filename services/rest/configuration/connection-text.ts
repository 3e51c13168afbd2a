/**
 * Connection strings of Postgres, as far as a configuration must know them: whether a text is one, and how it reads without its secrets.
 * Both forms of libpq's documentation ("Connection Strings"): URIs, and keywords with values. Opening connections is not done here.
 */

/** Stands in printed configurations where a secret is. */
export const MASK = '********'

const scheme = 'postgres(?:ql)?://'
const userInfo = '[^:@/?#\\s]*(?::[^@/?#\\s]*)?@'
const host = '(?:\\[[0-9A-Fa-f:.%]+\\]|[^:@\\[\\]/?#,\\s]*)(?::\\d{0,5})?'
const uri = new RegExp(`^${scheme}(?:${userInfo})?${host}(?:,${host})*(?:/[^@?#\\s]*)?(?:\\?([^#\\s]*))?$`)
const keyword = /\s*([a-z_]+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)/sy
const secretParameters = new Set(['password', 'sslpassword', 'oauth_client_secret'])

type Keyword = { name: string; value: string }

/** Whether libpq would take it; unusual characters of a URI must be percent-encoded, so that what is a password is never in doubt. */
export function isConnectionText(text: string): boolean {
  if (!new RegExp(`^${scheme}`).test(text)) return parseKeywords(text) !== undefined
  const found = uri.exec(text)
  return found !== null && (found[1] ?? '').split('&').every(part => part === '' || /^[^=]+=[^=]*$/.test(part))
}

/** The text with every password replaced; a text that is no connection string is replaced whole. */
export function maskConnectionText(text: string): string {
  if (!isConnectionText(text)) return MASK
  const keywords = parseKeywords(text)
  if (keywords === undefined) return maskParameters(maskUserInfo(text))
  return keywords.map(({ name, value }) => `${name}=${secretParameters.has(name) ? MASK : value}`).join(' ')
}

/** The password before the host of any URI. */
export function maskUserInfo(text: string): string {
  return text.replace(/^([a-z]+:\/\/[^:@/?#]*:)[^/?#]*@/i, (_, before: string) => `${before}${MASK}@`)
}

function maskParameters(text: string): string {
  return text.replace(/([?&])([^=&]+)=[^&]*/g, (whole, separator: string, name: string) =>
    secretParameters.has(decodeName(name)) ? `${separator}${name}=${MASK}` : whole,
  )
}

function decodeName(name: string): string {
  try {
    return decodeURIComponent(name)
  } catch {
    return name
  }
}

/** Values stay as written, quotes and all. */
function parseKeywords(text: string): Keyword[] | undefined {
  const keywords: Keyword[] = []
  let at = 0
  while (text.slice(at).trim() !== '') {
    keyword.lastIndex = at
    const [whole, name, value] = keyword.exec(text) ?? []
    if (whole === undefined || name === undefined || value === undefined) return undefined
    keywords.push({ name, value })
    at += whole.length
  }
  return keywords.length === 0 ? undefined : keywords
}
