/** Bytes of a file as text. What is neither UTF-8 nor marked as UTF-16 is refused: text in a wrong encoding would be loaded as garbage, and found by nobody. */
import { LoadError } from '../errors.ts'

type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be'

const startsWith = (bytes: Uint8Array, ...mark: number[]) => mark.every((byte, index) => bytes[index] === byte)

/** By the byte order mark; UTF-8 if there is none. */
function encodingOf(bytes: Uint8Array, name: string): Encoding {
  if (startsWith(bytes, 0xff, 0xfe, 0, 0) || startsWith(bytes, 0, 0, 0xfe, 0xff)) {
    throw new LoadError(`${name}: is UTF-32; convert it to UTF-8`)
  }
  if (startsWith(bytes, 0xff, 0xfe)) return 'utf-16le'
  return startsWith(bytes, 0xfe, 0xff) ? 'utf-16be' : 'utf-8'
}

const binary = (name: string) => new LoadError(`${name}: is a binary file; only text can be loaded`)

/** How much of a file is looked at to tell a binary file from a text in another encoding. */
const lookedAt = 4_096

function decoder(bytes: Uint8Array, name: string) {
  const encoding = encodingOf(bytes, name)
  if (encoding === 'utf-8' && bytes.subarray(0, lookedAt).includes(0)) throw binary(name)
  const decoding = new TextDecoder(encoding, { fatal: true })
  return (piece: Uint8Array | undefined): string => {
    let text: string
    try {
      text = piece === undefined ? decoding.decode() : decoding.decode(piece, { stream: true })
    } catch {
      throw new LoadError(
        encoding === 'utf-8'
          ? `${name}: is not UTF-8; convert it, for example: iconv -f ISO-8859-1 -t UTF-8`
          : `${name}: is not valid UTF-16`,
      )
    }
    // Postgres has no such character in a text.
    if (text.includes('\0')) throw binary(name)
    return text
  }
}

/** Without the byte order mark. @throws LoadError */
export function decodeText(bytes: Uint8Array, name: string): string {
  const decode = decoder(bytes, name)
  return decode(bytes) + decode(undefined)
}

/** As `decodeText`, piece by piece. @throws LoadError */
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
