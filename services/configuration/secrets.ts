/** Values outside the configuration's text, and values in Base64. */

/** Reads a complete file. */
export type ReadFile = (path: string) => string | Buffer

type ReadText = { kind: 'text'; text: string } | { kind: 'refused'; rule: string }

/** The content of the file in `@path`, without one trailing line break. Errors do not contain the file's content. */
export function readNamedFile(path: string, readFile: ReadFile): ReadText {
  if (path === '') return { kind: 'refused', rule: 'must name a file after "@"' }
  let content: string | Buffer
  try {
    content = readFile(path)
  } catch (error) {
    return { kind: 'refused', rule: `names a file that cannot be read (${codeOf(error)})` }
  }
  const text = decodeText(content)?.replace(/\r?\n$/, '')
  if (text === undefined) {
    return { kind: 'refused', rule: 'names a file that is not text in UTF-8; bytes must be written in Base64' }
  }
  return text === '' ? { kind: 'refused', rule: 'names a file that is empty' } : { kind: 'text', text }
}

function codeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : 'unknown error'
}

function decodeText(content: string | Buffer): string | undefined {
  if (typeof content === 'string') return content
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(content)
  } catch {
    return undefined
  }
}

/**
 * Decodes Base64 (RFC 4648, section 4), or its URL-safe alphabet with `.` instead of `=`, as PostgREST does. Undefined
 * if the text is neither.
 */
export function decodeSecret(text: string): Uint8Array | undefined {
  const letters = text.replaceAll('-', '+').replaceAll('_', '/').replaceAll('.', '=')
  const bytes = Buffer.from(letters, 'base64')
  // Node's decoder skips invalid characters. To detect them, the result is encoded again and compared.
  return bytes.toString('base64') === letters ? new Uint8Array(bytes) : undefined
}
