/**
 * Decodes the bytes of a file. Refuses a file that is not UTF-8 and declares no other encoding. Otherwise, the table
 * would contain garbage that no search finds.
 */
import { LoadError } from '../errors.ts'

const startsWith = (bytes: Uint8Array, ...prefix: number[]) => prefix.every((byte, index) => bytes[index] === byte)

/** Uses the byte order mark, then the file's declaration, then UTF-8. */
function encodingOf(bytes: Uint8Array, name: string, declared: string | undefined): string {
  if (startsWith(bytes, 0xff, 0xfe, 0, 0) || startsWith(bytes, 0, 0, 0xfe, 0xff)) {
    throw new LoadError(`${name}: is UTF-32; convert it to UTF-8`)
  }
  if (startsWith(bytes, 0xff, 0xfe)) return 'utf-16le'
  if (startsWith(bytes, 0xfe, 0xff)) return 'utf-16be'
  return startsWith(bytes, 0xef, 0xbb, 0xbf) ? 'utf-8' : (declared ?? 'utf-8')
}

const binary = (name: string) => new LoadError(`${name}: is a binary file; only text can be loaded`)

function decodingOf(encoding: string, name: string) {
  try {
    return new TextDecoder(encoding, { fatal: true })
  } catch {
    throw new LoadError(`${name}: its encoding ${JSON.stringify(encoding)} is unknown; convert it to UTF-8`)
  }
}

/** The HTML standard searches this many bytes for the declaration of an encoding. */
const declaredWithin = 1_024

/**
 * The encoding that HTML declares by `<meta charset>`, `<meta http-equiv>` or an XML declaration, if any. A declared
 * 16-bit encoding cannot be right, because the declaration is in bytes. As the standard requires, this means UTF-8.
 */
export function htmlEncoding(bytes: Uint8Array): string | undefined {
  const head = Buffer.from(bytes.subarray(0, declaredWithin))
    .toString('latin1')
    .replace(/<!--[\s\S]*?(?:-->|$)/g, '')
  const label =
    /<meta\s[^>]*?charset\s*=\s*["']?\s*([^\s"'/>;]{1,40})/i.exec(head)?.[1] ??
    /^\s*<\?xml\s[^>]*?encoding\s*=\s*["']([^"']{1,40})["']/i.exec(head)?.[1]
  return label === undefined || /^utf-?16/i.test(label) ? undefined : label.toLowerCase()
}

/** How many bytes of a file decide whether it is binary or a text in another encoding. */
const checkedBytes = 4_096

function decoder(bytes: Uint8Array, name: string, declared?: string) {
  const encoding = encodingOf(bytes, name, declared)
  if (!encoding.startsWith('utf-16') && bytes.subarray(0, checkedBytes).includes(0)) throw binary(name)
  const decoding = decodingOf(encoding, name)
  return (piece: Uint8Array | undefined): string => {
    let text: string
    try {
      text = piece === undefined ? decoding.decode() : decoding.decode(piece, { stream: true })
    } catch {
      throw new LoadError(
        encoding === 'utf-8'
          ? `${name}: is not UTF-8; convert it, for example: iconv -f ISO-8859-1 -t UTF-8`
          : `${name}: is not valid ${encoding}, its declared encoding; convert it to UTF-8`,
      )
    }
    // Postgres does not accept this character in text.
    if (text.includes('\0')) throw binary(name)
    return text
  }
}

/** Removes the byte order mark. @throws LoadError */
export function decodeText(bytes: Uint8Array, name: string, declared?: string): string {
  const decode = decoder(bytes, name, declared)
  return decode(bytes) + decode(undefined)
}

/** Like `decodeText`, but decodes pieces. @throws LoadError */
export async function* decodeStream(pieces: AsyncIterable<Uint8Array>, name: string): AsyncGenerator<string> {
  let decode: ReturnType<typeof decoder> | undefined
  for await (const piece of pieces) {
    decode ??= decoder(piece, name)
    const text = decode(piece)
    if (text !== '') yield text
  }
  const rest = decode?.(undefined) ?? ''
  if (rest !== '') yield rest
}
